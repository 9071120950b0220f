package lockvet

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

var allowComment = regexp.MustCompile(`(?:^|\s)(?://|--)\s*pglock:\s*allow\b`)

// allowed reports whether a line has the comment that keeps mistakes from being reported.
func allowed(line string) bool { return allowComment.MatchString(line) }

// notInTests are analyzers of mistakes that tests make on purpose, and that cost no user anything there.
var notInTests = []*analysis.Analyzer{Unlock, Context, Raw}

// place is a line of a file. Line 0 is the whole file.
type place struct {
	file string
	line int
}

// allowing makes an analyzer that reports nothing on lines with the comment, on those below it, and in a file that has the
// comment above its package clause.
func allowing(a *analysis.Analyzer) *analysis.Analyzer {
	run, quietInTests := a.Run, slices.Contains(notInTests, a)
	with := *a
	with.Run = func(pass *analysis.Pass) (any, error) {
		quiet := map[place]bool{}
		for _, file := range pass.Files {
			allowIn(pass, file, quiet)
			if quietInTests && isTest(pass, file) {
				quiet[place{placeOf(pass, file.Package).file, 0}] = true
			}
		}
		quieter := *pass
		quieter.Report = func(d analysis.Diagnostic) {
			if at := placeOf(pass, d.Pos); !quiet[at] && !quiet[place{at.file, 0}] {
				pass.Report(d)
			}
		}
		return run(&quieter)
	}
	return &with
}

// allowIn adds the lines of a file on which nothing is reported.
func allowIn(pass *analysis.Pass, file *ast.File, quiet map[place]bool) {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if !strings.HasPrefix(comment.Text, "//") || !allowed(comment.Text) {
				continue
			}
			at := placeOf(pass, comment.Pos())
			if comment.Pos() < file.Package {
				at.line = 0
			} else {
				quiet[place{at.file, at.line + 1}] = true
			}
			quiet[at] = true
		}
	}
}

func placeOf(pass *analysis.Pass, pos token.Pos) place {
	p := pass.Fset.Position(pos)
	return place{p.Filename, p.Line}
}

// isTest reports whether a file is test code: a test, or a helper of tests.
func isTest(pass *analysis.Pass, file *ast.File) bool {
	return strings.HasSuffix(placeOf(pass, file.Package).file, "_test.go") ||
		slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` })
}
