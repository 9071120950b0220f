package lockvet

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// underLock are the functions of a package that calls of this module run with a lock or a permit, and with a context that
// ends with it.
type underLock struct {
	pass      *analysis.Pass
	functions []underLockFunc
	seen      map[ast.Node]bool
	bodies    map[types.Object]ast.Node // of the package's functions, and of variables with one value, a literal
}

// underLockFunc is such a function.
type underLockFunc struct {
	node ast.Node // a literal or a declaration
	body *ast.BlockStmt
}

func newUnderLock(pass *analysis.Pass) *underLock {
	u := &underLock{pass: pass, seen: map[ast.Node]bool{}}
	calls(pass, func(call *ast.CallExpr) {
		f := callee(pass, call)
		if f == nil || f.Pkg() == nil || !strings.HasPrefix(f.Pkg().Path(), pglock) {
			return
		}
		for _, argument := range call.Args {
			if u.takesLock(argument) {
				u.add(u.resolve(argument))
			}
		}
	})
	return u
}

// takesLock reports whether a value is a function whose first parameter is a context and whose last is a lock or a permit.
func (u *underLock) takesLock(e ast.Expr) bool {
	signature, ok := u.pass.TypesInfo.TypeOf(e).(*types.Signature)
	if !ok {
		return false
	}
	params := signature.Params()
	if params.Len() < 2 || !isContext(params.At(0).Type()) {
		return false
	}
	path, name := named(params.At(params.Len() - 1).Type())
	return path == pglock && name == "Lock" || path == semaphore && name == "Permit"
}

func (u *underLock) add(node ast.Node) {
	f := underLockFunc{node: node}
	switch n := node.(type) {
	case *ast.FuncLit:
		f.body = n.Body
	case *ast.FuncDecl:
		f.body = n.Body
	}
	if f.body != nil && !u.seen[node] {
		u.seen[node] = true
		u.functions = append(u.functions, f)
	}
}

// resolve returns the function that a value is, or nil if that is not known.
func (u *underLock) resolve(e ast.Expr) ast.Node {
	switch e := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		return e
	case *ast.Ident:
		return u.bodyOf(u.pass.TypesInfo.Uses[e])
	case *ast.SelectorExpr:
		return u.bodyOf(u.pass.TypesInfo.Uses[e.Sel])
	}
	return nil
}

func (u *underLock) bodyOf(object types.Object) ast.Node {
	if u.bodies == nil {
		u.bodies = map[types.Object]ast.Node{}
		for variable, values := range newOrigins(u.pass).values {
			if literal, ok := ast.Unparen(values[0]).(*ast.FuncLit); ok && len(values) == 1 {
				u.bodies[variable] = literal
			}
		}
		for _, file := range u.pass.Files {
			for _, d := range file.Decls {
				if function, ok := d.(*ast.FuncDecl); ok {
					u.bodies[u.pass.TypesInfo.Defs[function.Name]] = function
				}
			}
		}
	}
	return u.bodies[object]
}

// check reports work of the function in a context that does not end with the lock.
func (f underLockFunc) check(pass *analysis.Pass, known *underLock) {
	ast.Inspect(f.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.GoStmt:
			return false // it cleans up, or is no work under the lock
		case *ast.FuncLit:
			return !known.seen[n] // visited separately
		case *ast.CallExpr:
			if len(n.Args) == 0 || !mayWork(pass, n) {
				return true
			}
			if from := outside(pass, f.node, n.Args[0]); from != "" {
				pass.Reportf(n.Pos(), "work under the lock runs in %s, which does not end when the lock is lost: "+
					"use the context that the function is passed", from)
			}
		}
		return true
	})
}
