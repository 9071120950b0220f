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
	Doc:  "find locks that are taken in a loop over keys, where LockAllTx or LockAll is meant",
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

// inLoop reports locks of a transaction that began before the loop, of keys that the loop chooses, and locks of a Locker
// that outlive their round of it. A function literal in the loop may begin transactions of its own, and an inner loop is
// visited separately.
func inLoop(pass *analysis.Pass, loop ast.Node, body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.ForStmt, *ast.RangeStmt:
			return false
		case *ast.AssignStmt:
			keptIn(pass, loop, body, n)
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

// keptIn reports a lock of a key that the loop chooses, if the loop keeps it: it is unlocked by a defer, or appended.
func keptIn(pass *analysis.Pass, loop ast.Node, body *ast.BlockStmt, n *ast.AssignStmt) {
	call, ok := ast.Unparen(n.Rhs[0]).(*ast.CallExpr)
	if !ok || !isMethod(callee(pass, call), pglock, "Locker", "Lock") || len(call.Args) < 2 || !changesIn(pass, loop, call.Args[1]) {
		return
	}
	lock := local(pass, body.Pos(), body.End(), n.Lhs[0])
	if lock == nil {
		return
	}
	kept := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.DeferStmt:
			kept = kept || reads(pass, n, lock)
		case *ast.CallExpr:
			name, ok := n.Fun.(*ast.Ident)
			kept = kept || ok && name.Name == "append" && reads(pass, n, lock)
		}
		return !kept
	})
	if kept {
		pass.Reportf(call.Pos(), "Lock in a loop that keeps its locks takes a round trip for each key, and waits for ever if another "+
			"process takes them in another order: call LockAll with all keys")
	}
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
