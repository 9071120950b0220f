// Package querylock declares what the tests need of the real package.
package querylock

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
)

type (
	Set   struct{}
	Query struct{ Name string }
	Tx    struct{}
)

func NewSet([]string, []Query) *Set { return nil }

func (*Set) Tx(pgx.Tx, ...pglock.TxOption) *Tx { return nil }

func (*Tx) Begin(context.Context) (pgx.Tx, error)      { return nil, nil }
func (*Tx) Exec(context.Context, string, ...any) error { return nil }
func (*Tx) Rollback(context.Context) error             { return nil }
