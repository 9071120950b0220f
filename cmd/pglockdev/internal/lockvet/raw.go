package lockvet

import (
	"fmt"
	"go/ast"
	"go/constant"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Raw reports SQL in a program that takes or frees advisory locks without pglock. Tests may do so.
var Raw = &analysis.Analyzer{
	Name: "pglockraw",
	Doc:  "find SQL that calls pg_advisory_lock or one of its relatives",
	Run:  runRaw,
}

func runRaw(pass *analysis.Pass) (any, error) {
	for _, file := range pass.Files {
		if generated(file) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			value := pass.TypesInfo.Types[e].Value
			if value == nil || value.Kind() != constant.String {
				return true
			}
			if functions := rawInText(textHere(pass, e)); len(functions) > 0 {
				pass.Reportf(e.Pos(), "%s", rawAdvice(functions[0]))
			}
			return false
		})
	}
	return nil, nil
}

// textHere returns the text of a constant expression without those of its named constants that call a function of advisory
// locks: they are reported where they are declared, unless generated code declares them.
func textHere(pass *analysis.Pass, e ast.Expr) string {
	value := constant.StringVal(pass.TypesInfo.Types[e].Value)
	switch e := ast.Unparen(e).(type) {
	case *ast.BinaryExpr:
		return textHere(pass, e.X) + textHere(pass, e.Y)
	case *ast.Ident, *ast.SelectorExpr:
		if len(rawInText(value)) > 0 {
			return ""
		}
	}
	return value
}

const (
	rawFunction = `(pg_(?:try_)?advisory_(?:xact_)?(?:un)?lock(?:_shared|_all)?)`
	inCatalog   = `(?:"?pg_catalog"?\s*\.\s*)?"?` // and the quote of what follows
)

// ofTransaction reports whether a function takes a lock of a transaction.
func ofTransaction(function string) bool { return strings.Contains(strings.ToLower(function), "xact") }

var (
	// ignoredSQL are comments, and constants other than those that are quoted with dollars, which are the bodies of functions.
	ignoredSQL = regexp.MustCompile(`(?s)--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'`)
	rawCall    = regexp.MustCompile(`(?i)\b` + rawFunction + `"?\s*\(`)
	// rawInQuery are calls within a statement, which a text about such a call lacks.
	rawInQuery = regexp.MustCompile(`(?i)(?:\b(?:select|perform|where|and|or|not|when|then|else|if|return|on)|:=|[=,(])\s*\(?\s*` + inCatalog + rawFunction + `"?\s*\(`)
	// rawAlone is a text that is only a call, as builders of queries take it.
	rawAlone = regexp.MustCompile(`(?is)^\s*` + inCatalog + rawFunction + `"?\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*(?:as\s+\w+)?\s*;?\s*$`)
	// beginsSQL is how a text with a statement begins.
	beginsSQL = regexp.MustCompile(`(?i)^[\s(]*(?:select|with|do|begin|create|insert|update|delete|set|perform|call|lock|merge|values|explain)\b`)
)

// rawInText returns the functions of advisory locks that a text of a program calls.
func rawInText(text string) (functions []string) {
	if !strings.Contains(strings.ToLower(text), "advisory_") {
		return nil
	}
	sql := ignoredSQL.ReplaceAllString(text, " ")
	if match := rawAlone.FindStringSubmatch(sql); match != nil {
		return match[1:]
	}
	if !beginsSQL.MatchString(sql) {
		return nil
	}
	for _, match := range rawInQuery.FindAllStringSubmatch(sql, -1) {
		functions = append(functions, match[1])
	}
	return functions
}

// RawInSQL returns what is to be said of a file of SQL that calls functions of advisory locks, by line.
func RawInSQL(text string) map[int]string {
	said := map[int]string{}
	if allowsFile(text) {
		return said
	}
	lines := strings.Split(text, "\n")
	blank := func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) + " " }
	for i, line := range strings.Split(ignoredSQL.ReplaceAllStringFunc(text, blank), "\n") {
		function := rawInLine(line)
		if function == "" || allowed(lines[i]) || (i > 0 && allowed(lines[i-1])) {
			continue
		}
		said[i+1] = rawAdvice(function)
		if ofTransaction(function) {
			said[i+1] += "; in a function of the database take its key from one of locks.sql"
		}
	}
	return said
}

// ofFunction is an argument that a function of a schema makes, as those of locks.sql and pglock.key do.
var ofFunction = regexp.MustCompile(`^\s*(\w+)\s*\.\s*\w+\s*\(`)

// rawInLine returns the first function of advisory locks that a line of SQL calls. A lock of a transaction whose key a
// function of the project makes has a name, and in a trigger there is no other way to take it.
func rawInLine(line string) string {
	for _, at := range rawCall.FindAllStringSubmatchIndex(line, -1) {
		function := line[at[2]:at[3]]
		schema := ofFunction.FindStringSubmatch(line[at[1]:])
		if !ofTransaction(function) || schema == nil || strings.EqualFold(schema[1], "pg_catalog") {
			return function
		}
	}
	return ""
}

// allowsFile reports whether a file begins with a paragraph of comments of which one allows all that follows.
func allowsFile(text string) (allows bool) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "--") {
			return allows && line == ""
		}
		allows = allows || allowed(line)
	}
	return allows
}

func rawAdvice(function string) string {
	if ofTransaction(function) {
		return fmt.Sprintf("%s by hand has no name in the monitor, and does not notice a stale snapshot or a standby: use pglock.LockTx, "+
			"or in SQL a comment -- pglock: lock name:{id}", function)
	}
	return fmt.Sprintf("%s by hand holds a lock of the connection, which a pool passes on locked and a pooler mixes up: "+
		"use a pglock.Locker", function)
}
