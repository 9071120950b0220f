package lockvet

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

// Ignored reports answers that nothing looks at: the work then goes on whether or not there is a lock.
var Ignored = &analysis.Analyzer{
	Name: "pglockignored",
	Doc:  "find errors of locks and guards that are ignored",
	Run:  runIgnored,
}

func runIgnored(pass *analysis.Pass) (any, error) {
	for _, file := range pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ExprStmt:
				if call, ok := ast.Unparen(n.X).(*ast.CallExpr); ok {
					reportIgnored(pass, call, false)
				}
			case *ast.GoStmt:
				reportIgnored(pass, n.Call, false)
			case *ast.DeferStmt:
				reportIgnored(pass, n.Call, false)
			case *ast.AssignStmt:
				call, ok := ast.Unparen(n.Rhs[0]).(*ast.CallExpr)
				if ok && isBlank(n.Lhs[len(n.Lhs)-1]) && (len(n.Lhs) == 1 || !isBlank(n.Lhs[0])) { // a lock that is dropped is Unlock's
					reportIgnored(pass, call, true)
				}
			}
			return true
		})
	}
	return nil, nil
}

// reportIgnored reports a call, whose error is not kept or is assigned to _, if the work that follows depends on it.
func reportIgnored(pass *analysis.Pass, call *ast.CallExpr, blank bool) {
	f := callee(pass, call)
	switch {
	case isFunc(f, pglock, "LockTx", "TryLockTx", "LockAllTx"), isFunc(f, sqltx, "LockTx", "TryLockTx", "LockAllTx"),
		blank && acquires(pass, call):
		pass.Reportf(call.Pos(), "the error of %s is ignored, so the work goes on without the lock: return it", f.Name())
	case isMethod(f, pglock, "Lock", "GuardTx"), isMethod(f, semaphore, "Permit", "GuardTx"), isFunc(f, sqltx, "GuardTx"):
		pass.Reportf(call.Pos(), "the error of GuardTx is ignored, so the transaction goes on without the guard: return it")
	case isMethod(f, pglock, "Lock", "Fence", "Verify"):
		pass.Reportf(call.Pos(), "the error of %s is ignored, and only it says that the lock is lost: return it", f.Name())
	case !blank && (isFunc(f, pglock, "BeginFunc") || isMethod(f, pglock, "Locker", "Do", "TryDo") || isMethod(f, semaphore, "Semaphore", "Do")):
		pass.Reportf(call.Pos(), "the error of %s is ignored, and only it says that the function was not called, or has failed: "+
			"return it, or write _ = and why that does no harm", f.Name())
	}
}
