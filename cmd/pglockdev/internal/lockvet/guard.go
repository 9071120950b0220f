package lockvet

import (
	"go/ast"
	"go/constant"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Guard reports transactions that write before they are guarded.
var Guard = &analysis.Analyzer{
	Name: "pglockguard",
	Doc:  "find transactions that write before GuardTx",
	Run:  runGuard,
}

func runGuard(pass *analysis.Pass) (any, error) {
	for _, file := range pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil {
					checkGuards(pass, n.Body)
				}
			case *ast.FuncLit:
				checkGuards(pass, n.Body)
			}
			return true
		})
	}
	return nil, nil
}

// checkGuards reads a function from its beginning to its end, as it is written. A transaction is of interest until it is
// guarded.
func checkGuards(pass *analysis.Pass, body *ast.BlockStmt) {
	wrote, guarded := map[types.Object]bool{}, map[types.Object]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.DeferStmt:
			return false
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if tx := variable(pass, left); tx != nil { // another transaction
					wrote[tx], guarded[tx] = false, false
				}
			}
		case *ast.CallExpr:
			tx := guards(pass, n)
			if wrote[tx] && !guarded[tx] {
				pass.Reportf(n.Pos(), "the transaction %s has written before this GuardTx, perhaps over what a later holder of the "+
					"lock wrote, or waits here with rows that holder needs: call GuardTx first", tx.Name())
			}
			if tx != nil {
				guarded[tx] = true
			}
			if tx := writes(pass, n); tx != nil {
				wrote[tx] = true
			}
		}
		return true
	})
}

// guards returns the variable of the transaction that a call guards, or nil.
func guards(pass *analysis.Pass, call *ast.CallExpr) types.Object {
	f := callee(pass, call)
	switch {
	case len(call.Args) == 2 && (isMethod(f, pglock, "Lock", "GuardTx") || isMethod(f, semaphore, "Permit", "GuardTx")):
		return variable(pass, call.Args[1])
	case len(call.Args) == 3 && isFunc(f, sqltx, "GuardTx"):
		return variable(pass, call.Args[2])
	}
	return nil
}

// reading are words of statements that lock rows and write nothing.
var reading = regexp.MustCompile(`(?i)\bfor\s+(?:no\s+key\s+)?update\b`)

var writing = regexp.MustCompile(`(?is)^\s*(insert|update|delete|merge|truncate|copy)\b|^\s*with\b.*\b(insert\s+into|update|delete\s+from)\b`)

// writes returns the variable whose method is called with a text that writes, or nil.
func writes(pass *analysis.Pass, call *ast.CallExpr) types.Object {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.ContainsFunc(call.Args, func(e ast.Expr) bool {
		value := pass.TypesInfo.Types[e].Value
		return value != nil && value.Kind() == constant.String && writing.MatchString(reading.ReplaceAllString(constant.StringVal(value), ""))
	}) {
		return nil
	}
	return variable(pass, selector.X)
}
