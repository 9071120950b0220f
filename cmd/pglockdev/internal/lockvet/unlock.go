package lockvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/cfg"
)

// Unlock reports locks that are discarded, or not unlocked on some path to a return.
var Unlock = &analysis.Analyzer{
	Name:     "pglockunlock",
	Doc:      "find locks that are dropped, or not unlocked on some path",
	Run:      runUnlock,
	Requires: []*analysis.Analyzer{ctrlflow.Analyzer},
}

// acquires reports whether a call returns a lock that must be unlocked.
func acquires(pass *analysis.Pass, call *ast.CallExpr) bool {
	return isMethod(callee(pass, call), pglock, "Locker", "Lock", "TryLock", "LockAll", "TryLockAll")
}

// permits reports whether a call returns a permit of a semaphore that must be released.
func permits(pass *analysis.Pass, call *ast.CallExpr) bool {
	return isMethod(callee(pass, call), semaphore, "Semaphore", "Acquire", "TryAcquire", "AcquireN")
}

func runUnlock(pass *analysis.Pass) (any, error) {
	eachAcquisition(pass, func(a acquisition) {
		what, done, free := "lock", "unlocked", "Unlock"
		if permits(pass, a.call) {
			what, done, free = "permit", "released", "Release"
		}
		if a.lock == nil {
			pass.Reportf(a.call.Pos(), "the %s is dropped, so it is held until its Locker is closed: keep it and %s it", what, free)
			return
		}
		if leak := a.leak(pass); leak.IsValid() {
			pass.Reportf(a.call.Pos(), "the %s %s is not %s on the path that returns in line %d: defer %[2]s.%[5]s(ctx)",
				what, a.lock.Name(), done, pass.Fset.Position(leak).Line, free)
		}
	})
	return nil, nil
}

// acquisition is a call that returns a lock, or a permit.
type acquisition struct {
	call      *ast.CallExpr
	statement ast.Stmt
	lock, err types.Object   // nil if the lock is discarded
	body      *ast.BlockStmt // of the function
	graph     *cfg.CFG
}

// eachAcquisition calls visit for each acquisition whose lock is discarded or kept in a variable of the function.
func eachAcquisition(pass *analysis.Pass, visit func(acquisition)) {
	eachFunction(pass, func(signature *ast.FuncType, body *ast.BlockStmt, graph *cfg.CFG) {
		inFunction(pass, signature, body, graph, visit)
	})
}

// eachFunction calls visit for each function and function literal with a body.
func eachFunction(pass *analysis.Pass, visit func(signature *ast.FuncType, body *ast.BlockStmt, graph *cfg.CFG)) {
	flow := pass.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	for _, file := range pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if graph := flow.FuncDecl(n); n.Body != nil && graph != nil { // those of the runtime have none
					visit(n.Type, n.Body, graph)
				}
			case *ast.FuncLit:
				visit(n.Type, n.Body, flow.FuncLit(n))
			}
			return true
		})
	}
}

func inFunction(pass *analysis.Pass, signature *ast.FuncType, body *ast.BlockStmt, graph *cfg.CFG, visit func(acquisition)) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // visited separately
		case *ast.ExprStmt:
			if call, ok := ast.Unparen(n.X).(*ast.CallExpr); ok && (acquires(pass, call) || permits(pass, call)) {
				visit(acquisition{call: call, statement: n, body: body, graph: graph})
			}
		case *ast.AssignStmt:
			call, ok := ast.Unparen(n.Rhs[0]).(*ast.CallExpr)
			if !ok || len(n.Lhs) != 2 || (!acquires(pass, call) && !permits(pass, call)) {
				return true
			}
			a := acquisition{call: call, statement: n, body: body, graph: graph, err: local(pass, signature.Pos(), body.End(), n.Lhs[1])}
			if a.lock = local(pass, body.Pos(), body.End(), n.Lhs[0]); a.lock != nil || isBlank(n.Lhs[0]) {
				visit(a)
			}
		}
		return true
	})
}

func isBlank(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && name.Name == "_"
}

// local returns the variable that an expression names, if it is declared between two positions of the function: in its
// body, or also as a result.
func local(pass *analysis.Pass, from, to token.Pos, e ast.Expr) types.Object {
	name, ok := e.(*ast.Ident)
	if !ok || name.Name == "_" {
		return nil
	}
	object := pass.TypesInfo.ObjectOf(name)
	if object == nil || object.Pos() < from || object.Pos() > to {
		return nil
	}
	return object
}

// leak returns the position of a return that can be reached with the lock held. It gives up where the function does more
// with the error of the acquisition than to compare it with nil.
func (a acquisition) leak(pass *analysis.Pass) token.Pos {
	type state struct {
		block *cfg.Block
		fresh bool // err is still that of the acquisition
	}
	seen := map[state]bool{}
	var walk func(block *cfg.Block, from int, fresh bool) token.Pos
	walk = func(block *cfg.Block, from int, fresh bool) token.Pos {
		failed := a.failed(pass, block)
		for i, node := range block.Nodes[from:] {
			isTest := failed >= 0 && from+i == len(block.Nodes)-1
			switch {
			case node == ast.Node(a.statement):
				return a.call.Pos() // reached again through a loop
			case a.releasesOrPasses(pass, node):
				return token.NoPos
			case assigns(pass, node, a.err):
				fresh = false
			case fresh && !isTest && uses(pass, node, a.err):
				return token.NoPos
			}
			if ret, ok := node.(*ast.ReturnStmt); ok {
				return ret.Pos()
			}
		}
		for i, next := range block.Succs {
			if fresh && i == failed {
				continue // there is no lock
			}
			if s := (state{next, fresh}); !seen[s] {
				seen[s] = true
				if leak := walk(next, 0, fresh); leak.IsValid() {
					return leak
				}
			}
		}
		return token.NoPos
	}
	for _, block := range a.graph.Blocks {
		if i := slices.Index(block.Nodes, ast.Node(a.statement)); i >= 0 && block.Live {
			return walk(block, i+1, true)
		}
	}
	return token.NoPos
}

// failed returns which of a block's two successors is taken if the acquisition has failed, or -1 if the block does not end
// in a comparison of its error with nil.
func (a acquisition) failed(pass *analysis.Pass, block *cfg.Block) int {
	if len(block.Nodes) == 0 || len(block.Succs) != 2 || a.err == nil {
		return -1
	}
	c, ok := block.Nodes[len(block.Nodes)-1].(*ast.BinaryExpr)
	switch {
	case !ok || variable(pass, c.X) != a.err || !pass.TypesInfo.Types[c.Y].IsNil():
		return -1
	case c.Op == token.NEQ:
		return 0
	}
	return 1
}

// uses reports whether a node uses a variable.
func uses(pass *analysis.Pass, node ast.Node, object types.Object) (does bool) {
	ast.Inspect(node, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		does = does || ok && object != nil && pass.TypesInfo.Uses[name] == object
		return !does
	})
	return does
}

// harmlessMethods are the methods of a Lock that do not change it.
var harmlessMethods = []string{"Context", "Done", "Err", "Key", "Keys", "Token", "Verify", "GuardTx", "Fence", "Extend"}

// releasesOrPasses reports whether a node unlocks the lock, or does something with it that the analyzer does not follow.
func (a acquisition) releasesOrPasses(pass *analysis.Pass, node ast.Node) (passes bool) {
	asked := map[*ast.Ident]bool{}
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if name, ok := n.X.(*ast.Ident); ok && slices.Contains(harmlessMethods, n.Sel.Name) {
				asked[name] = true
			}
		case *ast.Ident:
			passes = passes || (pass.TypesInfo.Uses[n] == a.lock && !asked[n])
		}
		return !passes
	})
	return passes
}
