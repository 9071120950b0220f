package lockvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
)

// Context reports work under a lock in a context that does not end when the lock is lost.
var Context = &analysis.Analyzer{
	Name:     "pglockcontext",
	Doc:      "find work under a lock whose context does not end with the lock",
	Run:      runContext,
	Requires: []*analysis.Analyzer{ctrlflow.Analyzer},
}

func runContext(pass *analysis.Pass) (any, error) {
	eachAcquisition(pass, func(a acquisition) {
		if a.lock == nil || permits(pass, a.call) || a.watched(pass) {
			return
		}
		if work := a.work(pass, variable(pass, a.call.Args[0])); work != nil {
			pass.Reportf(work.Pos(), "work under the lock %s runs in %s, which does not end when the lock is lost: "+
				"use %[1]s.Context(ctx), or %[1]s.GuardTx", a.lock.Name(), types.ExprString(work.Args[0]))
		}
	})
	calls(pass, func(call *ast.CallExpr) {
		if f := callee(pass, call); f == nil || f.Pkg() == nil || !strings.HasPrefix(f.Pkg().Path(), pglock) {
			return
		}
		for _, argument := range call.Args {
			if function, ok := argument.(*ast.FuncLit); ok && takesLock(pass, function) {
				checkFunction(pass, function)
			}
		}
	})
	return nil, nil
}

// watched reports whether the function watches the lock, or does something with it that the analyzer does not follow.
func (a acquisition) watched(pass *analysis.Pass) (watched bool) {
	harmless := map[*ast.Ident]bool{}
	ast.Inspect(a.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if name, ok := n.X.(*ast.Ident); ok && slices.Contains([]string{"Unlock", "Key", "Keys", "Token", "Extend"}, n.Sel.Name) {
				harmless[name] = true
			}
		case *ast.Ident:
			watched = watched || (pass.TypesInfo.Uses[n] == a.lock && !harmless[n])
		}
		return !watched
	})
	return watched
}

// work returns the first call after the acquisition that is passed its context, or a context without an end; nil if there
// is none.
func (a acquisition) work(pass *analysis.Pass, ctx types.Object) (work *ast.CallExpr) {
	ast.Inspect(a.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.FuncLit:
			return false
		case *ast.IfStmt:
			if condition, ok := n.Cond.(*ast.BinaryExpr); ok && condition.Op == token.NEQ && variable(pass, condition.X) == a.err {
				return false // there is no lock
			}
		case *ast.CallExpr:
			if work == nil && n.Pos() > a.call.End() && isWork(pass, n) &&
				(endless(pass, n.Args[0]) || ctx != nil && variable(pass, n.Args[0]) == ctx) {
				work = n
			}
		}
		return work == nil
	})
	return work
}

// isWork reports whether a call has arguments, does not deal with locks, contexts or logs, and is no clean-up, which has to
// be called after the loss of a lock, too.
func isWork(pass *analysis.Pass, call *ast.CallExpr) bool {
	f := callee(pass, call)
	return len(call.Args) > 0 && (f == nil || f.Pkg() == nil ||
		!slices.Contains([]string{pglock, "context", "log/slog", "os/signal"}, f.Pkg().Path()) &&
			!slices.Contains([]string{"Rollback", "Close", "Release", "Shutdown"}, f.Name()))
}

// endless reports whether an expression is a new context.
func endless(pass *analysis.Pass, e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	return ok && isFunc(callee(pass, call), "context", "Background", "TODO")
}

// takesLock reports whether the first parameter of a function is a context and the last a lock or a permit.
func takesLock(pass *analysis.Pass, function *ast.FuncLit) bool {
	params := pass.TypesInfo.TypeOf(function).(*types.Signature).Params()
	if params.Len() < 2 || !isContext(params.At(0).Type()) {
		return false
	}
	path, name := named(params.At(params.Len() - 1).Type())
	return path == pglock && name == "Lock" || path == semaphore && name == "Permit"
}

func isContext(t types.Type) bool {
	path, name := named(t)
	return path == "context" && name == "Context"
}

// checkFunction reports work of a function that runs under a lock, in a context of the function around it or in a new one.
func checkFunction(pass *analysis.Pass, function *ast.FuncLit) {
	ast.Inspect(function.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.GoStmt:
			return false // it cleans up, or is no work under the lock
		case *ast.CallExpr:
			if !isWork(pass, n) {
				return true
			}
			ctx := variable(pass, n.Args[0])
			outside := ctx != nil && isContext(ctx.Type()) && (ctx.Pos() < function.Pos() || ctx.Pos() > function.End())
			if outside || endless(pass, n.Args[0]) {
				pass.Reportf(n.Pos(), "work under the lock runs in %s, which does not end when the lock is lost: "+
					"use the context that the function is passed", types.ExprString(n.Args[0]))
			}
		}
		return true
	})
}
