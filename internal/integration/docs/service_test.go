package docs

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDocsTheTestOfAServiceIsTheOneThatRuns: the page prints the file that package service runs.
func TestDocsTheTestOfAServiceIsTheOneThatRuns(t *testing.T) {
	page := read(t, filepath.Join(root, "docs", "testing.md"))
	file := read(t, filepath.Join(root, "internal/integration/service/service_test.go"))
	if !strings.Contains(page, "```go\n"+file+"```\n") {
		t.Error("docs/testing.md does not contain internal/integration/service/service_test.go as it is")
	}
}
