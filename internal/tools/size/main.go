// Command size prints what the repository weighs, beside the budget in budget.txt, and fails if anything exceeds it:
//
//	size
//
// Run it in the repository's root. Lines of Go are those with code, after gofmt, without comments, blank lines, tests and
// generated files; a line of more than 120 characters counts as several. Other lines and words are counted as wc does.
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed budget.txt
var budget string

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	weight, err := weigh()
	if err != nil {
		return err
	}
	var over []error
	known := map[string]bool{}
	for line := range strings.Lines(budget) {
		text, kind, ok := strings.Cut(strings.TrimSpace(line), " ")
		kind = strings.TrimSpace(kind)
		most, err := strconv.Atoi(text)
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if err != nil {
			return fmt.Errorf("budget.txt: %q is not a number and a kind", line)
		}
		known[kind] = true
		fmt.Printf("%6d of %6d  %s\n", weight[kind], most, kind)
		if weight[kind] > most {
			over = append(over, fmt.Errorf("%s: %d, and the budget is %d", kind, weight[kind], most))
		}
	}
	for kind, n := range weight {
		if !known[kind] {
			over = append(over, fmt.Errorf("budget.txt has no line for %s (%d)", kind, n))
		}
	}
	return errors.Join(over...)
}

// weigh counts every file that git knows or may come to know.
func weigh() (map[string]int, error) {
	listed, err := exec.Command("git", "ls-files", "-co", "--exclude-standard").Output()
	if err != nil {
		return nil, fmt.Errorf("list the files: %w", err)
	}
	weight := map[string]int{}
	for _, file := range strings.Fields(string(listed)) {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, and not committed yet
		}
		if err != nil {
			return nil, err
		}
		if err := add(weight, file, text); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return weight, nil
}

func add(weight map[string]int, file string, text []byte) error {
	lines := strings.Count(string(text), "\n")
	switch ext := filepath.Ext(file); {
	case filepath.Base(file) == "go.mod":
		weight["go.mod files"]++
	case file == "docs/api.txt":
		weight["lines of docs/api.txt"] = lines
	case ext == ".go" && !generated.Match(text):
		return addGo(weight, file, text)
	case file == "CHANGELOG.md":
	case file == "CONTRIBUTING.md" || strings.HasPrefix(file, "docs/internals/"):
		weight["words for maintainers"] += len(strings.Fields(string(text)))
	case ext == ".md":
		weight["words for users"] += len(strings.Fields(string(text)))
	case strings.HasPrefix(file, "migrations/") && ext == ".sql":
		weight["SQL of migrations"] += lines
	case strings.HasPrefix(file, "queries/"):
		weight["SQL of queries"] += lines
	case ext == ".sql" && !generated.Match(text):
		weight["SQL elsewhere"] += lines
	case ext == ".lua":
		weight["Lua"] += lines
	case ext == ".js" || ext == ".css" || ext == ".html":
		weight["page"] += lines
	case ext == ".pml":
		weight["Promela"] += lines
	case ext == ".sh" || ext == ".py" || file == "Makefile" || file == ".ci/run":
		weight["scripts"] += lines
	}
	return nil
}
