package lockvet_test

import (
	"slices"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/pglock-toolkit/pglock/cmd/pglockdev/internal/lockvet"
)

// TestVetReportsMistakes compares what analyzers report of packages of testdata with the comments in them.
func TestVetReportsMistakes(t *testing.T) {
	for analyzer, packages := range map[string][]string{
		"pglockunlock":  {"unlock"},
		"pglockignored": {"ignored"},
		"pglockcontext": {"contexts"},
		"pglockguard":   {"guard"},
		"pglockplain":   {"plain", "db"},
	} {
		t.Run(analyzer, func(t *testing.T) {
			all := lockvet.Analyzers()
			at := slices.IndexFunc(all, func(a *analysis.Analyzer) bool { return a.Name == analyzer })
			analysistest.Run(t, analysistest.TestData(), all[at], packages...)
		})
	}
}
