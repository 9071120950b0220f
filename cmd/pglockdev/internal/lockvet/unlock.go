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
	if !imports(pass, pglock) && !imports(pass, semaphore) {
		return
	}
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

// leak returns the position of a return that can be reached with the lock held.
func (a acquisition) leak(pass *analysis.Pass) token.Pos {
	type state struct {
		block *cfg.Block
		fresh bool // err is still that of the acquisition
	}
	seen := map[state]bool{}
	var walk func(block *cfg.Block, from int, fresh bool) token.Pos
	walk = func(block *cfg.Block, from int, fresh bool) token.Pos {
		for _, node := range block.Nodes[from:] {
			if node == ast.Node(a.statement) {
				return a.call.Pos() // reached again through a loop
			}
			if a.releasesOrPasses(pass, node) {
				return token.NoPos
			}
			if a.err != nil && assigns(pass, node, a.err) {
				fresh = false
			}
			if ret, ok := node.(*ast.ReturnStmt); ok {
				return ret.Pos()
			}
		}
		for i, next := range block.Succs {
			if fresh && len(block.Succs) == 2 && i == a.failed(pass, block) {
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

// failed returns which of a block's two successors is taken if the acquisition has failed, or -1 if the block's
// condition does not test that.
func (a acquisition) failed(pass *analysis.Pass, block *cfg.Block) int {
	if len(block.Nodes) == 0 || a.err == nil {
		return -1
	}
	condition, ok := block.Nodes[len(block.Nodes)-1].(ast.Expr)
	if !ok {
		return -1
	}
	return a.failedIf(pass, condition)
}

// failedIf returns 0 if a condition that is true means that the acquisition has failed, 1 if one that is false does, and
// -1 if neither does.
func (a acquisition) failedIf(pass *analysis.Pass, condition ast.Expr) int {
	switch c := ast.Unparen(condition).(type) {
	case *ast.UnaryExpr:
		if of := a.failedIf(pass, c.X); c.Op == token.NOT && of >= 0 {
			return 1 - of
		}
	case *ast.BinaryExpr:
		return a.failedIfBoth(pass, c)
	case *ast.CallExpr:
		if a.asksErr(pass, c) {
			return 0
		}
	case *ast.Ident:
		if variable := pass.TypesInfo.Uses[c]; variable != nil && a.isAnswer(pass, variable) {
			return 0
		}
	}
	return -1
}

// failedIfBoth is failedIf for a comparison, and for two conditions of which one is enough.
func (a acquisition) failedIfBoth(pass *analysis.Pass, c *ast.BinaryExpr) int {
	isErr, isNil := a.isErr(pass, c.X) || a.isErr(pass, c.Y), pass.TypesInfo.Types[c.X].IsNil() || pass.TypesInfo.Types[c.Y].IsNil()
	either := func(of int) bool { return a.failedIf(pass, c.X) == of || a.failedIf(pass, c.Y) == of }
	switch {
	case isErr && c.Op == token.NEQ && isNil, isErr && c.Op == token.EQL && !isNil, c.Op == token.LAND && either(0):
		return 0
	case isErr && c.Op == token.EQL && isNil, isErr && c.Op == token.NEQ && !isNil, c.Op == token.LOR && either(1):
		return 1
	}
	return -1
}

// asksErr reports whether a call asks which error the acquisition returned, so that true means one.
func (a acquisition) asksErr(pass *analysis.Pass, call *ast.CallExpr) bool {
	return isFunc(callee(pass, call), "errors", "Is", "As", "AsType") && len(call.Args) > 0 && a.isErr(pass, call.Args[0])
}

// isAnswer reports whether a variable has one assignment, the answer of a call that asks for the error.
func (a acquisition) isAnswer(pass *analysis.Pass, variable types.Object) bool {
	assignments, answers := 0, 0
	ast.Inspect(a.body, func(n ast.Node) bool {
		assignment, ok := n.(*ast.AssignStmt)
		if !ok || !assigns(pass, assignment, variable) {
			return true
		}
		assignments++
		call, ok := ast.Unparen(assignment.Rhs[0]).(*ast.CallExpr)
		if ok && len(assignment.Rhs) == 1 && a.asksErr(pass, call) {
			answers++
		}
		return true
	})
	return assignments == 1 && answers == 1
}

func (a acquisition) isErr(pass *analysis.Pass, e ast.Expr) bool {
	name, ok := ast.Unparen(e).(*ast.Ident)
	return ok && pass.TypesInfo.ObjectOf(name) == a.err
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

func assigns(pass *analysis.Pass, node ast.Node, object types.Object) bool {
	statement, ok := node.(*ast.AssignStmt)
	return ok && slices.ContainsFunc(statement.Lhs, func(e ast.Expr) bool {
		name, ok := e.(*ast.Ident)
		return ok && pass.TypesInfo.ObjectOf(name) == object
	})
}
