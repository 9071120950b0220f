package pglock_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/pglock"
)

func TestTxBeginFuncWithoutAServerIsUnavailable(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig("postgres://app@127.0.0.1:1/shop") // where nothing listens
	txCheck(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	txCheck(t, err)
	t.Cleanup(pool.Close)
	key, nothing := pglock.NewKey("invoice:42"), func(context.Context, pgx.Tx) error { return nil }
	err = pglock.BeginFunc(t.Context(), pool, key, nothing)
	if !errors.Is(err, pglock.ErrUnavailable) || !strings.Contains(err.Error(), "invoice:42") {
		t.Errorf("without a server the error is %v", err)
	}
}
