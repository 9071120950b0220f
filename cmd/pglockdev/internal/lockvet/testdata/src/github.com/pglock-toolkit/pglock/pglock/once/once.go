// Package once declares what the tests need of the real package.
package once

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
)

type Scope struct{}

func (*Scope) Tx(context.Context, pgx.Tx, string, ...pglock.Option) error { return nil }
