// Package txscript runs several statements in a caller's transaction, as one message where possible.
package txscript

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Script is a list of statements that are executed one after another. Each counts its parameters from $1.
type Script struct {
	Statements []Statement
	message    string
}

// Statement is a statement of a script.
type Statement struct {
	SQL        string
	Parameters int
}

// Runner is implemented by transactions that cannot carry several statements in one message.
type Runner interface {
	// RunScript executes the statements of s. Each takes its arguments after those of the previous one. It returns
	// how many rows the last one has, and stops at the first error.
	RunScript(ctx context.Context, s *Script, args []any) (rows int64, err error)
}

// New makes a script.
func New(statements ...string) *Script {
	s := &Script{}
	texts, parameters := make([]string, len(statements)), 0
	for i, sql := range statements {
		most := 0
		texts[i] = parameter.ReplaceAllStringFunc(sql, func(p string) string {
			n, _ := strconv.Atoi(p[1:]) // it is digits
			most = max(most, n)
			return fmt.Sprint("$", parameters+n)
		})
		parameters += most
		s.Statements = append(s.Statements, Statement{sql, most})
	}
	s.message = strings.Join(texts, ";\n")
	return s
}

// parameter does not match the quotes of a DO block, $pglock$.
var parameter = regexp.MustCompile(`\$[0-9]+`)

// Run executes s with the arguments of all its statements, one after another, and returns how many rows the last
// statement has. Unless tx is a [Runner], it is one message of the simple protocol; only that protocol takes several
// statements in a message.
func (s *Script) Run(ctx context.Context, tx Executor, args ...any) (rows int64, err error) {
	if runner, ok := tx.(Runner); ok {
		return runner.RunScript(ctx, s, args)
	}
	tag, err := tx.Exec(ctx, s.message, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	return tag.RowsAffected(), err
}

// RunEach is [Script.Run] with a message for each statement.
func (s *Script) RunEach(ctx context.Context, tx Executor, args ...any) (rows int64, err error) {
	for _, statement := range s.Statements {
		tag, err := tx.Exec(ctx, statement.SQL, args[:statement.Parameters]...)
		if err != nil {
			return 0, err
		}
		rows, args = tag.RowsAffected(), args[statement.Parameters:]
	}
	return rows, nil
}

// Executor is the part of a transaction that a script needs.
type Executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}
