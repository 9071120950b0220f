package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
	"github.com/pglock-toolkit/pglock/pglock/internal/txguard"
)

// GuardTx implements [driver.TxGuard].
func (b *Backend) GuardTx(ctx context.Context, tx pgx.Tx, held driver.Grant, first bool) error {
	c, err := ours(held)
	if err != nil {
		return err
	}
	l := txguard.Lock{Keys: c.Keys(), Shared: c.Shared(), First: first, Idle: b.env.GuardIdle}
	for _, s := range c.Sessions() { // one, unless several keys are shared
		if err := b.guard(ctx, tx, s, l); err != nil {
			return err
		}
		l.First = false
	}
	return nil
}

// GuardsInOrder implements [driver.TxGuard].
func (b *Backend) GuardsInOrder() bool { return true }

// guard guards tx by a lock of one session. If it has to wait for transactions of earlier holders, it logs which.
func (b *Backend) guard(ctx context.Context, tx pgx.Tx, s *mux.Session, l txguard.Lock) error {
	if !l.First {
		return txguard.Guard(ctx, tx, s.Guard(), l)
	}
	looking, stop := context.WithCancel(context.WithoutCancel(ctx))
	looked := make(chan struct{})
	later := time.AfterFunc(longWait, func() {
		defer close(looked)
		b.logEarlier(looking, l)
	})
	err := txguard.Guard(ctx, tx, s.Guard(), l)
	// If the look has begun, stop ends it, and nothing is logged: the wait is over.
	stop()
	if !later.Stop() {
		<-looked
	}
	return err
}

// longWait is how long a guarded transaction waits before that is logged.
const longWait = time.Second

// logEarlier logs the guarded transactions of earlier holders that are still open. It asks on a session of the Locker's: the
// connection of the transaction is in use.
func (b *Backend) logEarlier(ctx context.Context, l txguard.Lock) {
	earlier := l.Earlier()
	text, err := b.ask(ctx, wire.ArrayText(earlier), wire.ArrayText(slices.Repeat([]int16{int16(driver.SpaceBigint)}, len(earlier))))
	var open []struct {
		driver.Holder
		State      string
		StateSince time.Time
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &open)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		b.env.Logger.Warn("a guarded transaction waits for one of an earlier holder, which cannot be named", "error", err)
	}
	for _, h := range open {
		b.env.Logger.Warn("a guarded transaction waits for one of an earlier holder, which is still open", "pid", h.PID,
			"prepared", shorttext.Value(h.Prepared), "user", h.User, "application", shorttext.Value(h.Application),
			"client", h.Client, "session_since", h.SessionSince, "state", h.State, "state_since", h.StateSince,
			"ends", "when that transaction commits or rolls back, or its session ends: by idle_in_transaction_session_timeout "+
				"(pglock.WithGuardIdleTimeout sets it), TCP keepalives, or pg_terminate_backend")
	}
}

// SameServer implements [txlock.Backend].
func (b *Backend) SameServer(ctx context.Context, tx pgx.Tx, held driver.Grant) (bool, error) {
	c, err := ours(held)
	if err != nil {
		return false, err
	}
	return txguard.SameServer(ctx, tx, c.Sessions()[0].Guard())
}
