// Command sqlc-gen-pglock is a plugin of sqlc (https://docs.sqlc.dev) that generates a package of typed lock keys, and
// of transactions in which queries take the locks that comments above them name. docs/sqlc.md shows a whole project.
//
// sqlc runs it:
//
//	plugins:
//	  - name: pglock
//	    process: {cmd: sqlc-gen-pglock, format: json}
//
// It reads a request from standard input and writes the files to standard output, both in JSON.
package main

import (
	"fmt"
	"os"

	"github.com/pglock-toolkit/pglock/internal/lockgen/sqlcplugin"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] != sqlcplugin.Method {
		fmt.Fprintf(os.Stderr, "sqlc-gen-pglock: sqlc runs this command, with a request on its standard input "+
			"(unexpected argument %q)\n", os.Args[1])
		os.Exit(64)
	}
	if err := sqlcplugin.Run(os.Stdin, os.Stdout, os.DirFS(".")); err != nil {
		fmt.Fprintf(os.Stderr, "sqlc-gen-pglock: %v\n", err)
		os.Exit(1)
	}
}
