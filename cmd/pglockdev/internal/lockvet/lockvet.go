// Package lockvet has analyzers that find mistakes with pglock's locks:
//
//   - pglockplain: a sqlc query with a lock runs on a plain transaction, connection or pool, which does not take it.
//   - pglockkey: a key is made by hand although the project generates its keys.
//   - pglockunlock: a lock is dropped, or not unlocked on some path.
//   - pglockcontext: work under a lock runs in a context that does not end with the lock.
//   - pglocktx: a transaction lock is taken on a pool or a connection of database/sql.
//   - pglockignored: nothing looks at the error of a lock, a guard or a fence.
//   - pglockguard: a transaction writes before GuardTx.
//   - pglockloop: locks of several keys are taken in a loop.
//   - pglockoption: a call is passed an option that it refuses.
//   - pglockraw: SQL in a program calls pg_advisory_lock or one of its relatives.
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
	all := []*analysis.Analyzer{Plain, Key, Unlock, Context, Tx, Ignored, Guard, Loop, Option, Raw}
	for i, a := range all {
		all[i] = allowing(a)
		all[i].URL = "https://github.com/pglock-toolkit/pglock/blob/main/docs/vet.md#" + a.Name
	}
	return all
}

const (
	module    = "github.com/pglock-toolkit/pglock/"
	pglock    = module + "pglock"
	querylock = module + "pglock/querylock"
	sqltx     = module + "pglock/adapter/sqltx"
	semaphore = module + "pglock/semaphore"
	once      = module + "pglock/once"
	ratelimit = module + "pglock/ratelimit"
	schedule  = module + "pglock/schedule"

	golangmigrate = module + "pglock/adapter/golangmigrate"
)

// callee returns the function or method that is called, or nil for a dynamic call.
func callee(pass *analysis.Pass, call *ast.CallExpr) *types.Func {
	return typeutil.StaticCallee(pass.TypesInfo, call)
}

// method returns the function or method that is called, including methods of interfaces.
func method(pass *analysis.Pass, call *ast.CallExpr) *types.Func {
	f, _ := typeutil.Callee(pass.TypesInfo, call).(*types.Func)
	return f
}

// isFunc reports whether f is a function of the package path with one of the names.
func isFunc(f *types.Func, path string, names ...string) bool {
	return f != nil && f.Pkg() != nil && f.Pkg().Path() == path && receiver(f) == "" && slices.Contains(names, f.Name())
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
	if _, name := named(recv.Type()); name != "" {
		return name
	}
	return "?"
}

// named returns the package path and the name of a type, or of the type that it points to.
func named(t types.Type) (path, name string) {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() == nil {
		return "", ""
	}
	return n.Obj().Pkg().Path(), n.Obj().Name()
}

// imports reports whether the package imports path.
func imports(pass *analysis.Pass, path string) bool {
	return slices.ContainsFunc(pass.Pkg.Imports(), func(p *types.Package) bool { return p.Path() == path })
}

// generated reports whether a file is generated code.
func generated(file *ast.File) bool { return ast.IsGenerated(file) }

// calls calls visit for each call in code that is not generated.
func calls(pass *analysis.Pass, visit func(call *ast.CallExpr)) {
	for _, file := range pass.Files {
		if generated(file) {
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
