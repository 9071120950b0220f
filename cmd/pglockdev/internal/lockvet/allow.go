package lockvet

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

var allowComment = regexp.MustCompile(`^//\s*pglock:\s*allow\b`)

// notInTests are analyzers of mistakes that tests make on purpose, and that cost no user anything there.
var notInTests = []*analysis.Analyzer{Unlock, Context}

// line is a line of a file.
type line struct {
	file string
	at   int
}

func lineOf(pass *analysis.Pass, pos token.Pos) line {
	p := pass.Fset.Position(pos)
	return line{p.Filename, p.Line}
}

// allowing makes an analyzer that reports nothing on lines with the comment, on those below it, and in a file that has the
// comment above its package clause.
func allowing(a *analysis.Analyzer) *analysis.Analyzer {
	run, quietInTests := a.Run, slices.Contains(notInTests, a)
	with := *a
	with.Run = func(pass *analysis.Pass) (any, error) {
		quiet, files := map[line]bool{}, map[string]bool{}
		for _, file := range pass.Files {
			name := lineOf(pass, file.Package).file
			files[name] = quietInTests && isTest(pass, file)
			for _, group := range file.Comments {
				for _, comment := range group.List {
					if !allowComment.MatchString(comment.Text) {
						continue
					}
					at := lineOf(pass, comment.Pos())
					quiet[at], quiet[line{name, at.at + 1}] = true, true
					files[name] = files[name] || comment.Pos() < file.Package
				}
			}
		}
		quieter := *pass
		quieter.Report = func(d analysis.Diagnostic) {
			if at := lineOf(pass, d.Pos); !quiet[at] && !files[at.file] {
				pass.Report(d)
			}
		}
		return run(&quieter)
	}
	return &with
}

// isTest reports whether a file is test code: a test, or a helper of tests.
func isTest(pass *analysis.Pass, file *ast.File) bool {
	return strings.HasSuffix(lineOf(pass, file.Package).file, "_test.go") ||
		slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` })
}
