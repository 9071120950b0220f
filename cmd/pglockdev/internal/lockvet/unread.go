package lockvet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/cfg"
)

// unread reports locks, guards and fences whose error is kept in a variable that no path reads before it is overwritten or
// the function ends.
func unread(pass *analysis.Pass, body *ast.BlockStmt, graph *cfg.CFG) {
	for _, block := range graph.Blocks {
		for at, node := range block.Nodes {
			assignment, ok := node.(*ast.AssignStmt)
			if !ok || !block.Live || len(assignment.Rhs) != 1 {
				continue
			}
			call, ok := ast.Unparen(assignment.Rhs[0]).(*ast.CallExpr)
			err := local(pass, body.Pos(), body.End(), assignment.Lhs[len(assignment.Lhs)-1])
			if !ok || err == nil || inLiteral(pass, body, err) || isRead(pass, err, block, at+1, map[*cfg.Block]bool{}) {
				continue
			}
			ignored{call: call, blank: acquires(pass, call)}.report(pass)
		}
	}
}

// inLiteral reports whether a function literal has the variable, so that it may be read at any time.
func inLiteral(pass *analysis.Pass, body *ast.BlockStmt, variable types.Object) (has bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if literal, ok := n.(*ast.FuncLit); ok {
			has = has || reads(pass, literal, variable)
			return false
		}
		return !has
	})
	return has
}

// isRead reports whether a path from a node of a block on reads the variable before it assigns it.
func isRead(pass *analysis.Pass, variable types.Object, block *cfg.Block, from int, seen map[*cfg.Block]bool) bool {
	for _, node := range block.Nodes[from:] {
		if reads(pass, node, variable) {
			return true
		}
		if assigns(pass, node, variable) {
			return false
		}
	}
	for _, next := range block.Succs {
		if !seen[next] {
			seen[next] = true
			if isRead(pass, variable, next, 0, seen) {
				return true
			}
		}
	}
	return false
}

// reads reports whether a node has the variable other than to assign it.
func reads(pass *analysis.Pass, node ast.Node, variable types.Object) (does bool) {
	assigned := map[*ast.Ident]bool{}
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if name, ok := left.(*ast.Ident); ok && (n.Tok == token.ASSIGN || n.Tok == token.DEFINE) {
					assigned[name] = true
				}
			}
		case *ast.Ident:
			does = does || (!assigned[n] && pass.TypesInfo.Uses[n] == variable)
		}
		return !does
	})
	return does
}
