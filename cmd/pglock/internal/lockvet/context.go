package lockvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
)

// Context reports work under a lock that uses the context with which the lock was acquired. That context does not end
// when the lock is lost.
var Context = &analysis.Analyzer{
	Name:     "pglockcontext",
	Doc:      "find work under a lock whose context does not end with the lock",
	Run:      runContext,
	Requires: []*analysis.Analyzer{ctrlflow.Analyzer},
}

func runContext(pass *analysis.Pass) (any, error) {
	eachAcquisition(pass, func(a acquisition) {
		if a.lock == nil || a.watched(pass) {
			return
		}
		ctx := contextOf(pass, a.call)
		if work := a.work(pass, ctx); work != nil {
			pass.Reportf(work.Pos(), "work under the lock %s runs in %s, which does not end when the lock is lost: "+
				"use %[1]s.Context(%[2]s), or %[1]s.GuardTx", a.lock.Name(), ctx.Name())
		}
	})
	calls(pass, func(call *ast.CallExpr) { runDo(pass, call) })
	return nil, nil
}

// contextOf returns the context variable that is the first argument of a call.
func contextOf(pass *analysis.Pass, call *ast.CallExpr) types.Object {
	if len(call.Args) == 0 {
		return nil
	}
	name, ok := call.Args[0].(*ast.Ident)
	if !ok {
		return nil
	}
	return pass.TypesInfo.Uses[name]
}

// watchMethods are the methods by which a holder learns that its lock was lost, or is safe from it.
var watchMethods = []string{"Context", "Done", "Err", "Verify", "GuardTx", "Fence"}

// watched reports whether the function watches the lock, or does something with it that the analyzer does not follow.
func (a acquisition) watched(pass *analysis.Pass) (watched bool) {
	harmless := map[*ast.Ident]bool{}
	ast.Inspect(a.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if name, ok := n.X.(*ast.Ident); ok && !slices.Contains(watchMethods, n.Sel.Name) {
				harmless[name] = true
			}
		case *ast.Ident:
			watched = watched || (pass.TypesInfo.Uses[n] == a.lock && !harmless[n])
		}
		return !watched
	})
	return watched
}

// work returns the first call after the acquisition that is passed ctx, or nil.
func (a acquisition) work(pass *analysis.Pass, ctx types.Object) (work *ast.CallExpr) {
	if ctx == nil {
		return nil
	}
	ast.Inspect(a.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.FuncLit:
			return false
		case *ast.IfStmt:
			if condition, ok := n.Cond.(*ast.BinaryExpr); ok && condition.Op == token.NEQ && a.isErr(pass, condition.X) {
				return false // there is no lock
			}
		case *ast.CallExpr:
			if work == nil && n.Pos() > a.call.End() && isWork(pass, n, ctx) {
				work = n
			}
		}
		return work == nil
	})
	return work
}

// isWork reports whether a call is passed ctx and does not deal with locks, contexts or logs.
func isWork(pass *analysis.Pass, call *ast.CallExpr, ctx types.Object) bool {
	if contextOf(pass, call) != ctx {
		return false
	}
	f := method(pass, call)
	if f == nil || f.Pkg() == nil {
		return true
	}
	return !slices.Contains([]string{pglock, "context", "log/slog"}, f.Pkg().Path())
}

// runDo checks the function that is passed to Do, which has its own context.
func runDo(pass *analysis.Pass, call *ast.CallExpr) {
	if !isMethod(callee(pass, call), pglock, "Locker", "Do", "TryDo") || len(call.Args) < 3 {
		return
	}
	ctx := contextOf(pass, call)
	function, ok := call.Args[2].(*ast.FuncLit)
	if !ok || ctx == nil {
		return
	}
	ast.Inspect(function.Body, func(n ast.Node) bool {
		if inner, ok := n.(*ast.CallExpr); ok && isWork(pass, inner, ctx) {
			pass.Reportf(inner.Pos(), "work under the lock runs in %s of the function around it, which does not end when the "+
				"lock is lost: use the context that Do passes", ctx.Name())
		}
		return true
	})
}
