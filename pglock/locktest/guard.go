package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/txlock"
)

// guarded is a transaction that is tied to a lock.
type guarded struct {
	tx    *Tx
	grant *grant
	ended chan struct{} // closed when the transaction has ended
}

// GuardsInOrder implements [driver.TxGuard].
func (b *backend) GuardsInOrder() bool { return true }

// GuardTx implements [driver.TxGuard].
func (b *backend) GuardTx(ctx context.Context, tx pgx.Tx, held driver.Grant, first bool) error {
	g, err := ours(held)
	if err == nil {
		err = b.reach(ctx)
	}
	if err != nil {
		return err
	}
	t, ok := tx.(*Tx)
	if !ok { // a transaction of OpenDB, by which package sqltx calls again, or one on a server, which this does not change
		if _, err := tx.Exec(ctx, ""); errors.Is(err, txlock.ErrCaught) {
			return err
		}
	}
	switch {
	case !ok:
		return fmt.Errorf("%w: the transaction is not one of a Server (begin it with Server.Begin or Server.Tx)", driver.ErrUnsupported)
	case t.server != b.server:
		return driver.ErrOtherServer
	case t.outer != nil:
		return errors.New("the transaction is nested, so that a rollback to its savepoint would end the guard")
	}
	if err := t.usable(); err != nil {
		return err
	}
	for {
		earlier, err := b.server.guard(t, g, first)
		if earlier == nil {
			return err
		}
		select {
		case <-earlier:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// guard ties t to g, or returns a channel that is closed when an earlier holder's transaction has ended.
func (s *Server) guard(t *Tx, g *grant, first bool) (earlier <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.granted, g) {
		return nil, driver.ErrLost
	}
	for _, other := range s.guards {
		if first && other.tx != t && other.grant.excludes(g) {
			return other.ended, nil
		}
	}
	s.guards = append(s.guards, &guarded{t, g, make(chan struct{})})
	return nil, nil
}

// unguardLocked notes that t has ended.
func (s *Server) unguardLocked(t *Tx) {
	s.guards = slices.DeleteFunc(s.guards, func(g *guarded) bool {
		if g.tx == t {
			close(g.ended)
		}
		return g.tx == t
	})
}
