package main

import (
	"os"
	"strings"

	"golang.org/x/mod/module"
)

// readSums reads the lines of a go.sum file: the hashes of our modules, and those of others.
func (r *repository) readSums(file string) (ours, others []string, err error) {
	content, err := os.ReadFile(file)
	for line := range strings.Lines(string(content)) {
		path, _, _ := strings.Cut(line, " ")
		if r.module(path) != nil {
			ours = append(ours, line)
		} else {
			others = append(others, line)
		}
	}
	return ours, others, err
}

// writeSums writes lines to a go.sum file in the order of the go command, unless it has them already.
func writeSums(file string, lines []string) error {
	var all []module.Version
	of := map[module.Version]string{}
	for _, line := range lines {
		path, rest, _ := strings.Cut(line, " ")
		version, _, _ := strings.Cut(rest, " ")
		v := module.Version{Path: path, Version: version}
		all, of[v] = append(all, v), strings.TrimSuffix(line, "\n")+"\n"
	}
	module.Sort(all)
	var b strings.Builder
	for _, v := range all {
		b.WriteString(of[v])
	}
	return writeFile(file, b.String())
}

// writeFile writes a file, unless it has that content.
func writeFile(file, content string) error {
	if old, err := os.ReadFile(file); err == nil && string(old) == content {
		return nil
	}
	return os.WriteFile(file, []byte(content), 0o644)
}
