// Command lint runs the analysers that neither go vet nor staticcheck has. make lint runs it as the -vettool of go vet.
// golangci-lint would bring hundreds of modules for the same analysers.
package main

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strings"

	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/kisielk/errcheck/errcheck"
	"github.com/polyfloyd/go-errorlint/errorlint"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/deepequalerrors"
	"golang.org/x/tools/go/analysis/passes/nilness"
	"golang.org/x/tools/go/analysis/passes/reflectvaluecompare"
	"golang.org/x/tools/go/analysis/passes/unusedwrite"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	unitchecker.Main(
		// No error is dropped silently. Tests and examples may write "defer rows.Close()".
		except(errcheck.Analyzer, generated, test, example),
		// Errors are matched with errors.Is. Tests also compare errors that must be the very same, and type assertions
		// are for errors that a function of the same package has just returned.
		except(without(errorlint.NewAnalyzer(), "asserts"), generated, test),
		// Every assignment has an effect.
		except(ineffassign.Analyzer, generated),
		// No field of a copy is set without effect.
		except(unusedwrite.Analyzer, generated),
		// No nil is dereferenced, and no error compared with nil twice.
		except(nilness.Analyzer, generated),
		// Neither errors nor reflect.Values are compared by their contents.
		deepequalerrors.Analyzer,
		reflectvaluecompare.Analyzer,
	)
}

// without switches a check of an analyser off.
func without(a *analysis.Analyzer, flag string) *analysis.Analyzer {
	if err := a.Flags.Set(flag, "false"); err != nil {
		panic(err)
	}
	return a
}

// An exception reports whether an analyser's reports in a file do not count.
type exception func(*analysis.Pass, *ast.File) bool

// except returns a without its reports in files for which one of the exceptions holds.
func except(a *analysis.Analyzer, exceptions ...exception) *analysis.Analyzer {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		report := pass.Report
		pass.Report = func(d analysis.Diagnostic) {
			file := fileOf(pass, d.Pos)
			for _, excepted := range exceptions {
				if file != nil && excepted(pass, file) {
					return
				}
			}
			report(d)
		}
		return run(pass)
	}
	return a
}

func fileOf(pass *analysis.Pass, at token.Pos) *ast.File {
	for _, file := range pass.Files {
		if file.FileStart <= at && at < file.FileEnd {
			return file
		}
	}
	return nil
}

// generated: sqlc writes "defer rows.Close()", and checks rows.Err.
func generated(_ *analysis.Pass, file *ast.File) bool { return ast.IsGenerated(file) }

func example(pass *analysis.Pass, _ *ast.File) bool {
	return strings.Contains(pass.Pkg.Path(), "/examples/")
}

// test: the suites, whose packages have names like leadertest, are tests too.
func test(pass *analysis.Pass, file *ast.File) bool {
	name := filepath.Base(pass.Fset.File(file.FileStart).Name())
	return strings.HasSuffix(name, "_test.go") || strings.HasSuffix(file.Name.Name, "test")
}
