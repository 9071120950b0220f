package lockvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// logged reports the error of a lock or a guard that is only written somewhere, such as to a log, before the transaction
// goes on without it:
//
//	if err := pglock.LockTx(ctx, tx, key); err != nil {
//		log.Print(err)
//	}
//	_, err := tx.Exec(…)
func logged(pass *analysis.Pass, n ast.Node) {
	list := statements(n)
	for at, statement := range list {
		test, ok := statement.(*ast.IfStmt)
		if !ok || test.Else != nil || !findsError(pass, test.Cond) || !onlyTells(pass, test.Body) {
			continue
		}
		from := test.Init
		if from == nil && at > 0 {
			from = list[at-1]
		}
		call := assignedCall(pass, from, test.Cond)
		if call == nil {
			continue
		}
		tx := lockedTx(pass, call)
		if tx != nil && slices.ContainsFunc(list[at+1:], func(s ast.Stmt) bool { return goesOn(pass, s, tx) }) {
			pass.Reportf(call.Pos(), "the error of %s does not end the work, which goes on without it: return it", callee(pass, call).Name())
		}
	}
}

// onlyTells reports whether a block consists of calls after which the function goes on.
func onlyTells(pass *analysis.Pass, body *ast.BlockStmt) bool {
	return !slices.ContainsFunc(body.List, func(s ast.Stmt) bool {
		expression, ok := s.(*ast.ExprStmt)
		if !ok {
			return true
		}
		call, ok := expression.X.(*ast.CallExpr)
		return !ok || ends(pass, call) || isRollback(call)
	})
}

// isRollback reports whether a call ends a transaction, or may end it.
func isRollback(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "Rollback"
}

// assignedCall returns the call whose error a statement assigns to the one variable that a condition compares with nil.
func assignedCall(pass *analysis.Pass, from ast.Stmt, condition ast.Expr) *ast.CallExpr {
	assignment, ok := from.(*ast.AssignStmt)
	comparison, is := ast.Unparen(condition).(*ast.BinaryExpr)
	if !ok || !is || comparison.Op != token.NEQ || len(assignment.Lhs) != 1 || len(assignment.Rhs) != 1 {
		return nil
	}
	err, ok := comparison.X.(*ast.Ident)
	if !ok || !assigns(pass, assignment, pass.TypesInfo.ObjectOf(err)) {
		return nil
	}
	call, _ := ast.Unparen(assignment.Rhs[0]).(*ast.CallExpr)
	return call
}

// lockedTx returns the variable of the transaction that a call locks or guards, or nil.
func lockedTx(pass *analysis.Pass, call *ast.CallExpr) types.Object {
	f, at := callee(pass, call), 1
	switch {
	case isFunc(f, pglock, "LockTx", "TryLockTx", "LockAllTx"), isFunc(f, sqltx, "LockTx", "TryLockTx", "LockAllTx"),
		isFunc(f, semaphore, "AcquireTx"), isMethod(f, pglock, "Lock", "GuardTx"), isMethod(f, semaphore, "Permit", "GuardTx"):
	case isFunc(f, sqltx, "GuardTx"):
		at = 2
	default:
		return nil
	}
	if len(call.Args) <= at {
		return nil
	}
	tx, ok := ast.Unparen(call.Args[at]).(*ast.Ident)
	if !ok {
		return nil
	}
	return pass.TypesInfo.Uses[tx]
}

// goesOn reports whether a statement uses a transaction other than to roll it back.
func goesOn(pass *analysis.Pass, statement ast.Stmt, tx types.Object) (does bool) {
	ast.Inspect(statement, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if isRollback(n) {
				return false
			}
		case *ast.Ident:
			does = does || pass.TypesInfo.Uses[n] == tx
		}
		return !does
	})
	return does
}
