package lockvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/cfg"
)

// Ignored reports answers that nothing looks at: the work then goes on whether or not there is a lock.
var Ignored = &analysis.Analyzer{
	Name:     "pglockignored",
	Doc:      "find errors of locks, guards and fences that are ignored",
	Run:      runIgnored,
	Requires: []*analysis.Analyzer{ctrlflow.Analyzer},
}

// ignored is a call whose error is not kept.
type ignored struct {
	call     *ast.CallExpr
	blank    bool // it is assigned to _
	deferred bool
}

func runIgnored(pass *analysis.Pass) (any, error) {
	eachFunction(pass, func(_ *ast.FuncType, body *ast.BlockStmt, graph *cfg.CFG) { unread(pass, body, graph) })
	for _, file := range pass.Files {
		if generated(file) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if i, ok := ignoredCall(pass, n); ok {
				i.report(pass)
			}
			return true
		})
		if !isTest(pass, file) {
			ast.Inspect(file, func(n ast.Node) bool { return unlocks(pass, n) })
			ast.Inspect(file, func(n ast.Node) bool {
				logged(pass, n)
				return true
			})
		}
	}
	return nil, nil
}

// ignoredCall returns the call of a statement that ignores its error.
func ignoredCall(pass *analysis.Pass, n ast.Node) (i ignored, ok bool) {
	switch n := n.(type) {
	case *ast.ExprStmt:
		i.call, ok = ast.Unparen(n.X).(*ast.CallExpr)
	case *ast.GoStmt:
		i.call, ok = n.Call, true
	case *ast.DeferStmt:
		i.call, i.deferred, ok = n.Call, true, true
	case *ast.AssignStmt:
		if len(n.Rhs) == 1 && isBlank(n.Lhs[len(n.Lhs)-1]) {
			i.blank = true
			i.call, ok = ast.Unparen(n.Rhs[0]).(*ast.CallExpr)
		}
		if ok && len(n.Lhs) > 1 && acquires(pass, i.call) && isBlank(n.Lhs[0]) {
			return i, false // Unlock reports a lock that is dropped
		}
	}
	return i, ok
}

// report reports the call if the work that follows it depends on its error.
func (i ignored) report(pass *analysis.Pass) {
	f := callee(pass, i.call)
	switch {
	case isFunc(f, pglock, "LockTx", "TryLockTx", "LockAllTx"), isFunc(f, sqltx, "LockTx", "TryLockTx", "LockAllTx"),
		isFunc(f, semaphore, "AcquireTx"):
		pass.Reportf(i.call.Pos(), "the error of %s is ignored, so the work goes on without the lock: return it", f.Name())
	case !i.blank && (isFunc(f, pglock, "BeginFunc") || isMethod(f, pglock, "Locker", "Do", "TryDo") || isMethod(f, semaphore, "Semaphore", "Do")):
		pass.Reportf(i.call.Pos(), "the error of %s is ignored, and only it says that the function was not called, or has failed: "+
			"return it, or write _ = and why that does no harm", f.Name())
	case acquires(pass, i.call) && i.blank:
		pass.Reportf(i.call.Pos(), "the error of %s is ignored, so the work goes on without the lock: return it", f.Name())
	case isMethod(f, pglock, "Lock", "GuardTx"), isMethod(f, semaphore, "Permit", "GuardTx"), isFunc(f, sqltx, "GuardTx"):
		pass.Reportf(i.call.Pos(), "the error of GuardTx is ignored, so the transaction goes on without the guard: return it")
	case isMethod(f, pglock, "Lock", "Fence", "Verify"):
		pass.Reportf(i.call.Pos(), "the error of %s is ignored, and only it says that the lock is lost: return it", f.Name())
	case isMethod(f, once, "Scope", "Tx"), isFunc(f, once, "Result"):
		pass.Reportf(i.call.Pos(), "the error of %s is ignored, and only it says that the work has been done: return it", f.Name())
	}
}

// unlocks reports an Unlock or a Release whose error is ignored though the work has succeeded: the error says that the lock was lost
// before. A deferred Unlock is not reported, nor one where another error has been found.
func unlocks(pass *analysis.Pass, n ast.Node) (further bool) {
	switch n := n.(type) {
	case *ast.DeferStmt:
		return false
	case *ast.IfStmt:
		if found := findsError(pass, n.Cond); found && n.Else == nil {
			return false
		} else if found {
			ast.Inspect(n.Else, func(n ast.Node) bool { return unlocks(pass, n) })
			return false
		}
	}
	list := statements(n)
	for at, statement := range list {
		expression, ok := statement.(*ast.ExprStmt)
		if !ok {
			continue
		}
		call, ok := ast.Unparen(expression.X).(*ast.CallExpr)
		if !ok || !frees(callee(pass, call)) || fails(pass, list[at+1:]) {
			continue
		}
		pass.Reportf(call.Pos(), "the error of %s is ignored, and it says if the lock was lost before the work was done: "+
			"return it, or write _ = and why that does no harm", callee(pass, call).Name())
	}
	return true
}

// frees reports whether a method gives a lock or a permit back.
func frees(f *types.Func) bool {
	return isMethod(f, pglock, "Lock", "Unlock") || isMethod(f, semaphore, "Permit", "Release")
}

// findsError reports whether a condition compares an error with nil, and is true if there is one.
func findsError(pass *analysis.Pass, condition ast.Expr) bool {
	c, ok := ast.Unparen(condition).(*ast.BinaryExpr)
	switch {
	case !ok:
		return false
	case c.Op == token.LAND || c.Op == token.LOR:
		return findsError(pass, c.X) || findsError(pass, c.Y)
	}
	of := pass.TypesInfo.TypeOf(c.X)
	return c.Op == token.NEQ && of != nil && types.Implements(of, errorType) && pass.TypesInfo.Types[c.Y].IsNil()
}

// statements returns the statements of a block.
func statements(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	case *ast.CommClause:
		return n.Body
	}
	return nil
}

// fails reports whether the statements end in a return of an error, or in a call that does not return.
func fails(pass *analysis.Pass, rest []ast.Stmt) bool {
	for _, statement := range rest {
		switch s := statement.(type) {
		case *ast.ReturnStmt:
			if len(s.Results) == 0 {
				return false
			}
			last := s.Results[len(s.Results)-1]
			value := pass.TypesInfo.Types[last]
			return !value.IsNil() && types.Implements(value.Type, errorType)
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && ends(pass, call) {
				return true
			}
		}
	}
	return false
}

var errorType = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)

// ends reports whether a call ends the program or the goroutine.
func ends(pass *analysis.Pass, call *ast.CallExpr) bool {
	if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "panic" {
		return true
	}
	f := method(pass, call)
	return isFunc(f, "os", "Exit") || (f != nil && strings.HasPrefix(f.Name(), "Fatal"))
}
