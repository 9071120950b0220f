package lockvet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// Loop reports a transaction that takes the locks of several keys one after the other.
var Loop = &analysis.Analyzer{
	Name: "pglockloop",
	Doc:  "find transactions that take locks in a loop over keys, where LockAllTx is meant",
	Run:  runLoop,
}

func runLoop(pass *analysis.Pass) (any, error) {
	for _, file := range pass.Files {
		if generated(file) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ForStmt:
				inLoop(pass, n, n.Body)
			case *ast.RangeStmt:
				inLoop(pass, n, n.Body)
			}
			return true
		})
	}
	return nil, nil
}

// inLoop reports locks of a transaction that began before the loop, of keys that the loop chooses. A function literal in
// the loop may begin transactions of its own, and an inner loop is visited separately.
func inLoop(pass *analysis.Pass, loop ast.Node, body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.ForStmt, *ast.RangeStmt:
			return false
		case *ast.CallExpr:
			f := callee(pass, n)
			if (isFunc(f, pglock, "LockTx") || isFunc(f, sqltx, "LockTx")) && len(n.Args) > 2 &&
				!changesIn(pass, loop, n.Args[1]) && changesIn(pass, loop, n.Args[2]) {
				pass.Reportf(n.Pos(), "LockTx in a loop takes a round trip for each key, and transactions with another order deadlock: "+
					"call LockAllTx with all keys")
			}
		}
		return true
	})
}

// changesIn reports whether an expression has a variable that is declared or assigned in the loop.
func changesIn(pass *analysis.Pass, loop ast.Node, e ast.Expr) (changes bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			variable, ok := pass.TypesInfo.Uses[name].(*types.Var)
			changes = changes || ok && !variable.IsField() &&
				(within(loop, variable.Pos()) || assignedIn(pass, loop, variable))
		}
		return !changes
	})
	return changes
}

func within(n ast.Node, at token.Pos) bool { return n.Pos() <= at && at < n.End() }

func assignedIn(pass *analysis.Pass, n ast.Node, object types.Object) (assigned bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IncDecStmt:
			name, ok := n.X.(*ast.Ident)
			assigned = assigned || ok && pass.TypesInfo.Uses[name] == object
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				name, ok := e.(*ast.Ident)
				assigned = assigned || ok && pass.TypesInfo.ObjectOf(name) == object
			}
		case *ast.AssignStmt:
			assigned = assigned || assigns(pass, n, object)
		}
		return !assigned
	})
	return assigned
}
