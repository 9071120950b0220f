package lockvet

import (
	"go/ast"
	"go/types"
	pathpkg "path"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// origins records what is assigned, in this package, to each variable, field and parameter.
type origins struct {
	pass   *analysis.Pass
	values map[types.Object][]ast.Expr
}

func newOrigins(pass *analysis.Pass) *origins {
	o := &origins{pass, map[types.Object][]ast.Expr{}}
	for _, file := range pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			o.record(n)
			return true
		})
	}
	return o
}

func (o *origins) record(n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if len(n.Lhs) == len(n.Rhs) {
				o.assign(left, n.Rhs[i])
			} else {
				o.assign(left, n.Rhs[0]) // a call with several results; the type of the variable is enough
			}
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) {
				o.assign(name, n.Values[i])
			}
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok {
			o.assign(key, n.Value)
		}
	case *ast.CallExpr:
		f := callee(o.pass, n)
		if f == nil || f.Pkg() != o.pass.Pkg {
			return
		}
		for i := range f.Signature().Params().Len() {
			if i < len(n.Args) {
				o.values[f.Signature().Params().At(i)] = append(o.values[f.Signature().Params().At(i)], n.Args[i])
			}
		}
	}
}

func (o *origins) assign(left, value ast.Expr) {
	if object := o.object(left); object != nil {
		o.values[object] = append(o.values[object], value)
	}
}

// object returns the variable or field that an expression names.
func (o *origins) object(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		if v, ok := o.pass.TypesInfo.ObjectOf(e).(*types.Var); ok {
			return v
		}
	case *ast.SelectorExpr:
		if v, ok := o.pass.TypesInfo.ObjectOf(e.Sel).(*types.Var); ok {
			return v
		}
	}
	return nil
}

// ofQuery returns what a query runs on, if that is a plain transaction, connection or pool. It returns "" for anything
// else, and if it is unknown.
func (o *origins) ofQuery(call *ast.CallExpr, f *types.Func) string {
	params := f.Signature().Params()
	if params.Len() > 1 && len(call.Args) > 1 {
		if _, name := named(params.At(1).Type()); name == "DBTX" {
			return o.ofTx(call.Args[1], 0) // sqlc's emit_methods_with_db_argument
		}
	}
	selector, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	return o.ofQueries(selector.X, f.Pkg(), 0)
}

// maxDepth is how many assignments are followed.
const maxDepth = 8

// ofQueries is ofQuery for a value of sqlc's type Queries.
func (o *origins) ofQueries(e ast.Expr, pkg *types.Package, depth int) string {
	if depth > maxDepth {
		return ""
	}
	e = ast.Unparen(e)
	if call, ok := e.(*ast.CallExpr); ok {
		f := callee(o.pass, call)
		if f != nil && f.Pkg() == pkg && (f.Name() == "New" || f.Name() == "WithTx") && len(call.Args) == 1 {
			return o.ofTx(call.Args[0], 0)
		}
		return ""
	}
	object := o.object(e)
	if object == nil {
		return ""
	}
	for _, value := range o.values[object] {
		if on := o.ofQueries(value, pkg, depth+1); on != "" {
			return on
		}
	}
	return ""
}

// ofTx is ofQuery for the value that queries are made from.
func (o *origins) ofTx(e ast.Expr, depth int) string {
	e = ast.Unparen(e)
	t := o.pass.TypesInfo.TypeOf(e)
	if depth > maxDepth || t == nil {
		return ""
	}
	if results, ok := t.(*types.Tuple); ok && results.Len() > 0 {
		t = results.At(0).Type()
	}
	path, name := named(t)
	switch {
	case path == querylock:
		return ""
	case !types.IsInterface(t) && isPGX(path):
		return plainName(path, name)
	case !types.IsInterface(t):
		return "" // a type of the program
	}
	if isPGX(path) && name == "Tx" {
		if o.locked(e, 0) {
			return ""
		}
		return plainName(path, name)
	}
	for _, value := range o.values[o.object(e)] {
		if on := o.ofTx(value, depth+1); on != "" {
			return on
		}
	}
	return ""
}

// locked reports whether all known values of a variable of type pgx.Tx have locks.
func (o *origins) locked(e ast.Expr, depth int) bool {
	if path, _ := named(o.pass.TypesInfo.TypeOf(e)); path == querylock {
		return true
	}
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		selector, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		return ok && o.locked(selector.X, depth+1) // Begin
	}
	values := o.values[o.object(e)]
	return depth <= maxDepth && len(values) > 0 && !slices.ContainsFunc(values, func(value ast.Expr) bool {
		return !o.locked(value, depth+1)
	})
}

func plainName(path, name string) string {
	return strings.Replace(pathpkg.Base(path), "v5", "pgx", 1) + "." + name
}
