package lockvet_test

import (
	"slices"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/pglock-toolkit/pglock/cmd/pglockdev/internal/lockvet"
)

// TestVetReportsMistakes compares what analyzers report of packages of testdata with the comments in them. They run as one:
// loading the packages, with all of the standard library that they import, is what takes long.
func TestVetReportsMistakes(t *testing.T) {
	packages := map[string]string{
		"unlock": "pglockunlock", "ignored": "pglockignored", "contexts": "pglockcontext", "guard": "pglockguard",
		"plain": "pglockplain", "db": "pglockplain",
	}
	of := map[string]*analysis.Analyzer{}
	all := &analysis.Analyzer{Name: "all", Doc: "one analyzer for each package"}
	for _, a := range lockvet.Analyzers() {
		of[a.Name] = a
		all.FactTypes = append(all.FactTypes, a.FactTypes...)
		for _, required := range a.Requires {
			if !slices.Contains(all.Requires, required) {
				all.Requires = append(all.Requires, required)
			}
		}
	}
	all.Run = func(pass *analysis.Pass) (any, error) {
		if a := of[packages[pass.Pkg.Path()]]; a != nil {
			return a.Run(pass)
		}
		return nil, nil
	}
	analysistest.Run(t, analysistest.TestData(), all, "unlock", "ignored", "contexts", "guard", "plain", "db")
}
