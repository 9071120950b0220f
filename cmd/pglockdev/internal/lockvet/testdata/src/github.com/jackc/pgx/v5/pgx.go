// Package pgx declares what the tests need of the real package.
package pgx

import "context"

type Tx interface {
	Begin(context.Context) (Tx, error)
	Exec(context.Context, string, ...any) error
	Rollback(context.Context) error
}

type Conn struct{}

func (*Conn) Begin(context.Context) (Tx, error)          { return nil, nil }
func (*Conn) Exec(context.Context, string, ...any) error { return nil }
