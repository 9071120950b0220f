// Command apicheck compares the exported API of all published packages with docs/api.txt, so that a change of the public
// API shows up in review. Run it in the repository's root:
//
//	go run ./internal/apicheck           # fails when the API and docs/api.txt differ
//	go run ./internal/apicheck -record   # writes docs/api.txt
//
// It compares the text of declarations, not types: a type that changes under the same name is not noticed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const recordFile = "docs/api.txt"

func main() {
	record := flag.Bool("record", false, "write "+recordFile)
	flag.Parse()
	if err := run(*record); err != nil {
		fmt.Fprintln(os.Stderr, "apicheck:", err)
		os.Exit(1)
	}
}

func run(record bool) error {
	now, err := moduleAPI()
	if err != nil {
		return err
	}
	if record {
		return os.WriteFile(recordFile, []byte(strings.Join(now, "\n")+"\n"), 0o644)
	}
	text, err := os.ReadFile(recordFile)
	if err != nil {
		return err
	}
	changes := difference(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), now)
	if changes == "" {
		return nil
	}
	return fmt.Errorf("the public API has changed; if that is intended, run `make api-record` and describe it in CHANGELOG.md:\n%s", changes)
}

// moduleAPI returns the sorted lines of all packages that other modules can import, except the examples.
func moduleAPI() ([]string, error) {
	const format = `{{if ne .Name "main"}}{{.ImportPath}} {{.Dir}}{{range .GoFiles}} {{.}}{{end}}{{end}}`
	adapters, err := filepath.Glob("pglock/adapter/*") // most are modules of their own
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-f", format, "./..."}
	for _, adapter := range adapters {
		args = append(args, "./"+filepath.ToSlash(adapter)+"/...")
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, fmt.Errorf("go list: %s", failed.Stderr)
		}
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.Contains(fields[0]+"/", "/internal/") || strings.Contains(fields[0], "/examples/") {
			continue
		}
		lines, err := packageAPI(fields[0], fields[1], fields[2:])
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// difference lists the lines that are in only one of two sorted lists.
func difference(before, now []string) string {
	var changes strings.Builder
	for _, line := range before {
		if _, found := slices.BinarySearch(now, line); !found {
			fmt.Fprintln(&changes, "  -", line)
		}
	}
	for _, line := range now {
		if _, found := slices.BinarySearch(before, line); !found {
			fmt.Fprintln(&changes, "  +", line)
		}
	}
	return changes.String()
}
