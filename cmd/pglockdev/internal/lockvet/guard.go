package lockvet

import (
	"go/ast"
	"go/constant"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/cfg"
)

// Guard reports transactions that write before they are guarded.
var Guard = &analysis.Analyzer{
	Name:     "pglockguard",
	Doc:      "find transactions that write before GuardTx",
	Run:      runGuard,
	Requires: []*analysis.Analyzer{ctrlflow.Analyzer},
}

func runGuard(pass *analysis.Pass) (any, error) {
	if !imports(pass, pglock) && !imports(pass, semaphore) {
		return nil, nil
	}
	eachFunction(pass, func(_ *ast.FuncType, _ *ast.BlockStmt, graph *cfg.CFG) {
		for _, tx := range guarded(pass, graph) {
			g := guardWalk{pass: pass, tx: tx, reported: map[*ast.CallExpr]bool{}, seen: map[guardState]bool{}}
			g.walk(graph.Blocks[0], false)
		}
	})
	return nil, nil
}

// guardWalk follows the paths of a function from its beginning. A path ends at a GuardTx: what follows is guarded.
type guardWalk struct {
	pass     *analysis.Pass
	tx       types.Object
	reported map[*ast.CallExpr]bool
	seen     map[guardState]bool
}

type guardState struct {
	block *cfg.Block
	wrote bool
}

func (g *guardWalk) walk(block *cfg.Block, wrote bool) {
	if at := (guardState{block, wrote}); !g.seen[at] {
		g.seen[at] = true
	} else {
		return
	}
	for _, node := range block.Nodes {
		ended := false
		inStatement(node, func(call *ast.CallExpr) {
			switch {
			case ended:
			case guards(g.pass, call) == g.tx:
				ended = true
				if wrote && !g.reported[call] {
					g.reported[call] = true
					g.pass.Reportf(call.Pos(), "the transaction %s has written before this GuardTx, perhaps over what a later holder of the "+
						"lock wrote, or waits here with rows that holder needs: call GuardTx first", g.tx.Name())
				}
			case writes(g.pass, call, g.tx):
				wrote = true
			}
		})
		if ended {
			return
		}
		if assigns(g.pass, node, g.tx) {
			wrote = false // another transaction
		}
	}
	for _, next := range block.Succs {
		g.walk(next, wrote)
	}
}

// inStatement visits the calls of a statement, but not those of function literals or of what is deferred.
func inStatement(node ast.Node, visit func(*ast.CallExpr)) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.DeferStmt:
			return false
		case *ast.CallExpr:
			visit(n)
		}
		return true
	})
}

// guarded returns the variables of transactions that the function guards.
func guarded(pass *analysis.Pass, graph *cfg.CFG) (all []types.Object) {
	for _, block := range graph.Blocks {
		for _, node := range block.Nodes {
			inStatement(node, func(call *ast.CallExpr) {
				if tx := guards(pass, call); tx != nil && !slices.Contains(all, tx) {
					all = append(all, tx)
				}
			})
		}
	}
	return all
}

// guards returns the variable of the transaction that a call guards, or nil.
func guards(pass *analysis.Pass, call *ast.CallExpr) types.Object {
	f := callee(pass, call)
	var tx ast.Expr
	switch {
	case len(call.Args) == 2 && (isMethod(f, pglock, "Lock", "GuardTx") || isMethod(f, semaphore, "Permit", "GuardTx")):
		tx = call.Args[1]
	case len(call.Args) == 3 && isFunc(f, sqltx, "GuardTx"):
		tx = call.Args[2]
	default:
		return nil
	}
	if name, ok := ast.Unparen(tx).(*ast.Ident); ok {
		return pass.TypesInfo.Uses[name]
	}
	return nil
}

// reading are words of statements that lock rows and write nothing.
var reading = regexp.MustCompile(`(?i)\bfor\s+(?:no\s+key\s+)?update\b`)

var writing = regexp.MustCompile(`(?is)^\s*(insert|update|delete|merge|truncate|copy)\b|^\s*with\b.*\b(insert\s+into|update|delete\s+from)\b`)

// writes reports whether a call is a method of the transaction with a text that writes.
func writes(pass *analysis.Pass, call *ast.CallExpr, tx types.Object) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if name, ok := ast.Unparen(selector.X).(*ast.Ident); !ok || pass.TypesInfo.Uses[name] != tx {
		return false
	}
	return selector.Sel.Name == "CopyFrom" || slices.ContainsFunc(call.Args, func(e ast.Expr) bool {
		value := pass.TypesInfo.Types[e].Value
		return value != nil && value.Kind() == constant.String && writing.MatchString(reading.ReplaceAllString(constant.StringVal(value), ""))
	})
}
