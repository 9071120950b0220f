package mux

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// TryBeside is Try for a shared key that a session has already, by the grant held. PostgreSQL would grant it to that session again,
// past a waiting writer. So another session is asked: the server refuses it exactly if a writer has the key or waits for it. If there
// is no other session, pg_locks is asked for a waiting writer, nothing is locked, and TryBeside returns held.
func (m *Mux) TryBeside(ctx context.Context, g, held *Grant) (*Grant, error) {
	for {
		open := *m.open.Load()
		i := slices.IndexFunc(open, func(s *Session) bool { return s != held.session })
		if i < 0 {
			return held, m.askForWriter(ctx, g.key, held.session)
		}
		if err := open[i].Try(ctx, g); !HasEnded(err) {
			return g, explain(ctx, err)
		}
		m.forget(open[i]) // it may not have called that yet
	}
}

// askForWriter returns an error if a writer waits for a key that the session held has.
func (m *Mux) askForWriter(ctx context.Context, key driver.KeyID, held *Session) error {
	if m.config.Sessions > 1 {
		m.dialMore()
	}
	value, _, err := held.Call(ctx, lockdb.WriterWaits, strconv.Itoa(int(key.Space)), strconv.FormatInt(key.Number, 10))
	switch {
	case err == nil && value == "t":
		return driver.ErrNotAcquired
	case HasEnded(err):
		return nil // the key has been lost, which its owner knows
	case errors.Is(err, errNoAnswer): // the question locks nothing, so it can be left unanswered
		return NothingDone(ctx, held.whySilent())
	}
	return explain(ctx, err)
}
