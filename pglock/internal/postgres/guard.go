package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/txguard"
)

// GuardTx implements [driver.TxGuard].
func (b *Backend) GuardTx(ctx context.Context, tx pgx.Tx, held driver.Grant, first bool) error {
	g, err := ours(held)
	if err != nil {
		return err
	}
	spaces, numbers := g.held()
	keys := make([]driver.KeyID, len(numbers))
	for i, number := range numbers {
		keys[i] = driver.KeyID{Space: driver.Space(spaces[i]), Number: number}
	}
	return txguard.Guard(ctx, tx, g.guardSession(), txguard.Lock{Keys: keys, Shared: g.shared, First: first})
}

// guardSession is the session that carries the grant, as a guard needs it.
func (g *grant) guardSession() txguard.Session {
	if s := g.lane; s != nil {
		return txguard.Session{PID: s.guardPID, Identity: &s.identity, Run: s.callText}
	}
	s := g.session
	return txguard.Session{PID: s.pid, Identity: &s.identity, Run: s.callText}
}

// callText runs a statement for a held lock: with the session the lock is gone.
func (s *session) callText(ctx context.Context, sql string, args ...string) (string, error) {
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg
	}
	row, err := query(ctx, s, func(ctx context.Context, conn *pgx.Conn) (row string, err error) {
		err = conn.QueryRow(ctx, sql, values...).Scan(&row)
		return row, err
	})
	return row, s.explain(err)
}
