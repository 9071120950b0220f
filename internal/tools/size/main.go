// Command size prints how many lines of code the areas of the repository have: lines with Go code, without comments, blank
// lines, tests and generated files.
package main

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// areas are tried in this order; the first that matches a file has it.
var areas = []struct{ name, files string }{
	{"benchmarks", `^bench/`},
	{"examples", `^examples/`},
	{"integration", `^internal/integration/`},
	{"tests' infrastructure", `test/[^/]*\.go$|^internal/(testenv|pgserver|redisserver|supervise|lockfixture|prepare)/`},
	{"tools", `^internal/(tools|apicheck)/`},
	{"command", `^cmd/pglock/`},
	{"generation", `^cmd/|^internal/(lockgen|key[a-z]*|sqlcomment)/|^pglock/querylock/`},
	{"monitor", `^monitor/`},
	{"redisfallback", `^redisfallback/`},
	{"engine", `^pglock/internal/postgres/`},
	{"adapters", `^pglock/adapter/`},
	{"primitives", `^pglock/(leader|semaphore|schedule|once|ratelimit)/`},
	{"pglock, its driver and the rest below it", `^pglock/`},
	{"migrations, and what several areas share", ``},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	listed, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		return fmt.Errorf("list the files: %w", err)
	}
	modules, sum, of := 0, 0, map[string]int{}
	for _, file := range strings.Fields(string(listed)) {
		if strings.HasSuffix("/"+file, "/go.mod") {
			modules++
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, a := range areas {
			if match, err := regexp.MatchString(a.files, file); err != nil || match {
				n := lines(text)
				of[a.name], sum = of[a.name]+n, sum+n
				break
			}
		}
	}
	api, err := os.ReadFile("docs/api.txt")
	if err != nil {
		return err
	}
	for _, a := range areas {
		fmt.Printf("%6d  %s\n", of[a.name], a.name)
	}
	fmt.Printf("%6d  together\n%6d  go.mod files\n%6d  lines of docs/api.txt\n", sum, modules, bytes.Count(api, []byte("\n")))
	return nil
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// lines counts the lines on which a token of Go's begins or goes on.
func lines(text []byte) int {
	if generated.Match(text) {
		return 0
	}
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, text, nil, 0)
	with := map[int]bool{}
	for {
		at, tok, lit := s.Scan()
		if tok == token.EOF {
			return len(with)
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue // the scanner's own
		}
		for i := range 1 + strings.Count(lit, "\n") {
			with[file.Line(at)+i] = true
		}
	}
}
