package main

import (
	"go/format"
	"go/scanner"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// areas are tried in this order; the first that matches a file has it.
var areas = []struct {
	name  string
	files *regexp.Regexp
}{
	{"benchmarks", regexp.MustCompile(`^bench/`)},
	{"tests' infrastructure", regexp.MustCompile(`test/[^/]*\.go$|^internal/(testenv|pgserver|redisserver|supervise|prepare)/`)},
	{"integration, examples, tools", regexp.MustCompile(`^(examples|internal/(integration|tools|model))/`)},
	{"generation", regexp.MustCompile(`^cmd/sqlc[^/]*/|^internal/(lockgen|key[a-z]*)/|^pglock/querylock/`)},
	{"command, development tool included", regexp.MustCompile(`^cmd/`)},
	{"monitor", regexp.MustCompile(`^monitor/`)},
	{"redisfallback", regexp.MustCompile(`^redisfallback/`)},
	{"engine", regexp.MustCompile(`^pglock/internal/postgres/`)},
	{"adapters", regexp.MustCompile(`^pglock/adapter/`)},
	{"primitives", regexp.MustCompile(`^pglock/(leader|semaphore|schedule|once|ratelimit)/`)},
	{"pglock, driver, rowlock and the rest below", regexp.MustCompile(`^pglock/`)},
	{"migrations, and what several areas share", regexp.MustCompile(``)},
}

func addGo(weight map[string]int, file string, text []byte) error {
	switch {
	case strings.HasSuffix(file, "_test.go"):
		weight["lines of tests"] += strings.Count(string(text), "\n")
		return nil
	case strings.Contains(file, "/testdata/"):
		return nil
	}
	formatted, err := format.Source(text)
	if err != nil {
		return err
	}
	lines, sql := count(formatted)
	for _, a := range areas {
		if a.files.MatchString(file) {
			weight[a.name] += lines
			break
		}
	}
	weight["Go together"] += lines
	weight["SQL in Go strings"] += sql
	return nil
}

var generated = regexp.MustCompile(`(?m)^(//|--) Code generated .* DO NOT EDIT\.$`)

// count returns the number of lines on which a token of Go begins or continues, and of the lines of SQL in its strings.
func count(text []byte) (lines, sql int) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, text, nil, 0)
	with := map[int]bool{}
	for {
		at, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue // the scanner's own
		}
		for i := range 1 + strings.Count(lit, "\n") {
			with[file.Line(at)+i] = true
		}
		if tok == token.STRING {
			sql += linesOfSQL(lit)
		}
	}
	for i, line := range strings.Split(string(text), "\n") {
		if with[i+1] {
			lines += 1 + max(0, len([]rune(line))-1)/120
		}
	}
	return lines, sql
}

func linesOfSQL(literal string) int {
	s, err := strconv.Unquote(literal)
	if err != nil || !statement.MatchString(strings.Join(strings.Fields(s), " ")+" ") {
		return 0
	}
	return 1 + strings.Count(strings.TrimSpace(s), "\n")
}

// statement matches SQL, whose keywords are written in capitals here.
var statement = regexp.MustCompile(`^(SELECT|WITH|VALUES|INSERT|UPDATE|DELETE|MERGE|SET|COPY|CREATE|ALTER|DROP|TRUNCATE|` +
	`GRANT|REVOKE|COMMENT|LOCK|CALL|DO|DECLARE)[ ;]|FROM pg_catalog\.`)
