package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// list is what one file records: sorted lines.
type list struct {
	file, what string
	lines      []string
}

func newList(file, what string, lines []string) list {
	slices.Sort(lines)
	return list{file: file, what: what, lines: slices.Compact(lines)}
}

func recordLists(directory string, lists []list) error {
	for _, l := range lists {
		content := strings.Join(l.lines, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(directory, l.file), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func compareLists(directory string, lists []list) (err error) {
	for _, l := range lists {
		recorded, readErr := os.ReadFile(filepath.Join(directory, l.file))
		if readErr != nil {
			err = errors.Join(err, readErr)
			continue
		}
		if difference := diff(strings.Fields(string(recorded)), l.lines); difference != "" {
			err = errors.Join(err, fmt.Errorf("a program that imports only package pglock: the %s have changed\n%s"+
				"if that is intended, record it with: make consumer-record", l.what, difference))
		}
	}
	return err
}

// diff shows the lines that only one of two sorted lists has, in order, and is empty when they are equal.
func diff(recorded, now []string) string {
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(recorded, now))))
	var text strings.Builder
	for _, line := range all {
		switch {
		case !slices.Contains(recorded, line):
			fmt.Fprintln(&text, "  +", line)
		case !slices.Contains(now, line):
			fmt.Fprintln(&text, "  -", line)
		}
	}
	return text.String()
}
