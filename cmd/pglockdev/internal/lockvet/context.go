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
		if a.lock == nil || permits(pass, a.call) || a.watched(pass) {
			return
		}
		ctx := contextOf(pass, a.call)
		if work := a.work(pass, ctx); work != nil {
			parent := "ctx"
			if ctx != nil {
				parent = ctx.Name()
			}
			pass.Reportf(work.Pos(), "work under the lock %s runs in %s, which does not end when the lock is lost: "+
				"use %[1]s.Context(%[3]s), or %[1]s.GuardTx", a.lock.Name(), types.ExprString(work.Args[0]), parent)
		}
	})
	known := newUnderLock(pass)
	for _, function := range known.functions {
		function.check(pass, known)
	}
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

// isWork reports whether a call is passed ctx, or a new context, and does not deal with locks, contexts or logs.
func isWork(pass *analysis.Pass, call *ast.CallExpr, ctx types.Object) bool {
	return mayWork(pass, call) && (contextOf(pass, call) == ctx && ctx != nil || isNew(pass, call))
}

// isNew reports whether the first argument of a call is a context without an end.
func isNew(pass *analysis.Pass, call *ast.CallExpr) bool {
	if len(call.Args) == 0 {
		return false
	}
	made, ok := ast.Unparen(call.Args[0]).(*ast.CallExpr)
	return ok && isFunc(callee(pass, made), "context", "Background", "TODO")
}

// cleanUps are methods that have to be called after the loss of a lock, too.
var cleanUps = []string{"Rollback", "Close", "Release", "Shutdown"}

// mayWork reports whether a call does not deal with locks, contexts or logs, and is no clean-up.
func mayWork(pass *analysis.Pass, call *ast.CallExpr) bool {
	f := method(pass, call)
	if f == nil || f.Pkg() == nil {
		return true
	}
	return !slices.Contains([]string{pglock, "context", "log/slog", "os/signal"}, f.Pkg().Path()) && !slices.Contains(cleanUps, f.Name())
}

func isContext(t types.Type) bool {
	path, name := named(t)
	return path == "context" && name == "Context"
}

// outside describes a context that comes from outside of the function, or returns "". A context that WithoutCancel has
// made is one that is meant not to end.
func outside(pass *analysis.Pass, function ast.Node, e ast.Expr) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		variable, ok := pass.TypesInfo.Uses[e].(*types.Var)
		switch {
		case !ok || !isContext(variable.Type()):
			return ""
		case !within(function, variable.Pos()):
			return variable.Name() + " of the function around it"
		}
		return outsideIn(pass, function, variable)
	case *ast.SelectorExpr:
		if field, ok := pass.TypesInfo.Uses[e.Sel].(*types.Var); ok && isContext(field.Type()) {
			return "the context " + field.Name() + " of another object"
		}
	case *ast.CallExpr:
		f := callee(pass, e)
		switch {
		case isFunc(f, "context", "Background", "TODO"):
			return "context." + f.Name() + "()"
		case isFunc(f, "context", "WithoutCancel"):
			return ""
		case f != nil && f.Pkg() != nil && f.Pkg().Path() == "context" && strings.HasPrefix(f.Name(), "With") && len(e.Args) > 0:
			return outside(pass, function, e.Args[0])
		case f != nil && f.Name() == "Context" && len(e.Args) == 0:
			return ofRequest(pass, function, e)
		}
	}
	return ""
}

// ofRequest describes the context of something that is declared outside of the function, such as a request.
func ofRequest(pass *analysis.Pass, function ast.Node, call *ast.CallExpr) string {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !isContext(pass.TypesInfo.TypeOf(call)) {
		return ""
	}
	name, ok := ast.Unparen(selector.X).(*ast.Ident)
	if !ok || within(function, pass.TypesInfo.ObjectOf(name).Pos()) {
		return ""
	}
	return "the context of " + name.Name
}

// outsideIn describes the context that a variable of the function is made from, if it is from outside and the only one.
func outsideIn(pass *analysis.Pass, function ast.Node, variable *types.Var) (from string) {
	assignments := 0
	ast.Inspect(function, func(n ast.Node) bool {
		if assignment, ok := n.(*ast.AssignStmt); ok && assigns(pass, assignment, variable) {
			if assignments++; assignments == 1 && len(assignment.Rhs) == 1 {
				if call, ok := ast.Unparen(assignment.Rhs[0]).(*ast.CallExpr); ok {
					from = outside(pass, function, call)
				}
			}
		}
		return true
	})
	if assignments != 1 {
		return ""
	}
	return from
}
