// Package lockvet has analyzers that find mistakes with pglock's locks:
//
//   - pglockunlock: a lock is dropped, or not unlocked on some path.
//   - pglockignored: nothing looks at the error of a lock or a guard.
//   - pglockcontext: work under a lock runs in a context that does not end with the lock.
//   - pglockguard: a transaction writes before GuardTx.
//   - pglockplain: a sqlc query with a lock runs on a plain transaction, connection or pool, which does not take it.
//
// A comment //pglock:allow on the line of a mistake or on the line above keeps it from being reported, and above the package
// clause all mistakes of the file.
//
// They analyze one package and know facts about its imports. They do not follow a lock that is passed on, returned or
// stored, or a transaction that comes from another package.
package lockvet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// Analyzers returns all analyzers.
func Analyzers() []*analysis.Analyzer {
	all := []*analysis.Analyzer{Unlock, Ignored, Context, Guard, Plain}
	for i, a := range all {
		all[i] = allowing(a)
		all[i].URL = "https://github.com/pglock-toolkit/pglock/blob/main/docs/testing.md#" + a.Name
	}
	return all
}

const (
	module    = "github.com/pglock-toolkit/pglock/"
	pglock    = module + "pglock"
	querylock = module + "pglock/querylock"
	sqltx     = module + "pglock/adapter/sqltx"
	semaphore = module + "pglock/semaphore"
)

// callee returns the function or method that is called, also that of an interface; nil for a dynamic call.
func callee(pass *analysis.Pass, call *ast.CallExpr) *types.Func {
	f, _ := typeutil.Callee(pass.TypesInfo, call).(*types.Func)
	return f
}

// isFunc reports whether f is a function of the package path with one of the names.
func isFunc(f *types.Func, path string, names ...string) bool {
	return isMethod(f, path, "", names...)
}

// isMethod reports whether f is a method of the type with one of the names.
func isMethod(f *types.Func, path, typ string, names ...string) bool {
	return f != nil && f.Pkg() != nil && f.Pkg().Path() == path && receiver(f) == typ && slices.Contains(names, f.Name())
}

// receiver returns the name of a method's type, or "" for a function.
func receiver(f *types.Func) string {
	recv := f.Signature().Recv()
	if recv == nil {
		return ""
	}
	_, name := named(recv.Type())
	return name
}

// named returns the package path and the name of a type, or of the type that it points to.
func named(t types.Type) (path, name string) {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() == nil {
		return "", "?"
	}
	return n.Obj().Pkg().Path(), n.Obj().Name()
}

// variable returns the variable that an expression names, or nil.
func variable(pass *analysis.Pass, e ast.Expr) types.Object {
	name, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	if v, ok := pass.TypesInfo.ObjectOf(name).(*types.Var); ok {
		return v
	}
	return nil
}

// assigns reports whether a node is an assignment to a variable.
func assigns(pass *analysis.Pass, node ast.Node, object types.Object) bool {
	statement, ok := node.(*ast.AssignStmt)
	return ok && slices.ContainsFunc(statement.Lhs, func(e ast.Expr) bool { return variable(pass, e) == object })
}

// calls calls visit for each call in code that is not generated.
func calls(pass *analysis.Pass, visit func(call *ast.CallExpr)) {
	for _, file := range pass.Files {
		if ast.IsGenerated(file) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				visit(call)
			}
			return true
		})
	}
}

// isPGX reports whether a package is pgx or part of it.
func isPGX(path string) bool {
	const pgx = "github.com/jackc/pgx/v5"
	return path == pgx || strings.HasPrefix(path, pgx+"/")
}
