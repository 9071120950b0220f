package lockvet

import (
	"go/ast"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/analysis"
)

// Plain reports calls of sqlc queries with a lock on something that does not take it: a plain transaction, a connection
// or a pool. It finds the queries by their comments, which sqlc copies to the methods.
var Plain = &analysis.Analyzer{
	Name:      "pglockplain",
	Doc:       "find sqlc queries with a lock that run on a plain transaction, connection or pool, and so without it",
	Run:       runPlain,
	FactTypes: []analysis.Fact{new(hasLock)},
}

// hasLock is the fact that a query takes a lock.
type hasLock struct{ Lock string }

func (*hasLock) AFact()           {}
func (f *hasLock) String() string { return "lock " + f.Lock }

func runPlain(pass *analysis.Pass) (any, error) {
	exportLocks(pass)
	var known *origins
	calls(pass, func(call *ast.CallExpr) {
		f := callee(pass, call)
		var fact hasLock
		if f == nil || !pass.ImportObjectFact(f.Origin(), &fact) {
			return
		}
		if known == nil {
			known = newOrigins(pass)
		}
		if on := known.ofQuery(call, f); on != "" {
			pass.Reportf(call.Pos(), "%s runs on a plain %s, which does not take its lock %s: use New(locks.Tx(tx)) or "+
				"WithTx(locks.Tx(tx)), with locks the package that sqlc-gen-pglock writes", f.Name(), on, fact.Lock)
		}
	})
	return nil, nil
}

var lockComment = regexp.MustCompile(`^//\s*(?i:pglock\s*:\s*lock)\s+(.*?)\s*$`)

// exportLocks finds the queries with a lock in sqlc's own package.
func exportLocks(pass *analysis.Pass) {
	for _, file := range pass.Files {
		if !ast.IsGenerated(file) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				exportLock(pass, n.Name, n.Doc)
			case *ast.InterfaceType:
				for _, m := range n.Methods.List {
					if len(m.Names) == 1 {
						exportLock(pass, m.Names[0], m.Doc)
					}
				}
			}
			return true
		})
	}
}

func exportLock(pass *analysis.Pass, name *ast.Ident, doc *ast.CommentGroup) {
	f, ok := pass.TypesInfo.Defs[name].(*types.Func)
	if !ok || doc == nil {
		return
	}
	for _, comment := range doc.List {
		if match := lockComment.FindStringSubmatch(comment.Text); match != nil {
			pass.ExportObjectFact(f, &hasLock{match[1]})
		}
	}
}
