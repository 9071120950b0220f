package postgres

import (
	"context"
	"fmt"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
)

// Fence implements [driver.Fencer]. It draws a token on a connection that holds no locks, since the commit may have to
// wait for a standby, and then asks the lock's session whether it still lives.
//
// The order matters. The answer of the session shows that the lock was held when the token was drawn, so every later
// holder draws after that, and gets a larger one. If the session were asked first, the lock could be lost before the
// draw; then the next holder could draw before this one, and the earlier holder would have the larger token.
//
// That argument needs one sequence, so the token and the lock must be of one server and database. After a failover the
// old primary may live on with the lock's session, or with a connection that was kept for draws: its tokens say
// nothing about those of the new one. A connection that was kept is replaced once.
func (b *Backend) Fence(ctx context.Context, grants []driver.Grant) (int64, error) {
	var held []*mux.Session
	for _, g := range grants {
		c, err := ours(g)
		if err != nil {
			return 0, err
		}
		held = append(held, c.Session())
	}
	for attempt := 1; ; attempt++ {
		drawn, err := b.fences.Draw(ctx)
		if err != nil {
			return 0, err
		}
		same, err := liveOn(ctx, held, drawn.Server)
		switch {
		case err != nil:
			return 0, err
		case same:
			return drawn.Token, nil
		case attempt == 2:
			return 0, fmt.Errorf("%w: new connections do not lead to the server and database that the lock is on, as after "+
				"a failover, or behind a proxy that chooses among servers", driver.ErrUnavailable)
		}
		b.fences.Leave()
	}
}

// liveOn reports whether the sessions that hold the lock are of that server and database. The error matches
// [driver.ErrLost] if one of them has ended. The statement is the one that PostgreSQL answers without its catalogs: to wait
// for one of these, which VACUUM FULL locks, would cost all locks of the session.
func liveOn(ctx context.Context, held []*mux.Session, server string) (same bool, err error) {
	same = true
	for _, s := range held {
		if _, err := s.Ask(ctx, lockdb.Heartbeat); err != nil {
			return false, err
		}
		same = same && s.Server() == server
	}
	return same, nil
}
