package lockvet

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

// Tx reports transaction locks that are taken on something other than a transaction. With pgx that does not compile;
// with database/sql it fails only at run time.
var Tx = &analysis.Analyzer{
	Name: "pglocktx",
	Doc:  "find locks of transactions that are asked for on a pool or a connection",
	Run:  runTx,
}

func runTx(pass *analysis.Pass) (any, error) {
	calls(pass, func(call *ast.CallExpr) {
		f := callee(pass, call)
		if !isFunc(f, sqltx, "LockTx", "TryLockTx", "LockAllTx", "GuardTx") {
			return
		}
		for _, argument := range call.Args {
			switch path, name := named(pass.TypesInfo.TypeOf(argument)); {
			case path == "database/sql" && (name == "DB" || name == "Conn"),
				path == "github.com/jmoiron/sqlx" && (name == "DB" || name == "Conn"),
				path == "github.com/uptrace/bun" && (name == "DB" || name == "Conn"):
				pass.Reportf(argument.Pos(), "%s on a %s.%s, which is no transaction, so the lock would be free again at once: "+
					"begin one", f.Name(), lastElement(path), name)
			}
		}
	})
	return nil, nil
}
