package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// prepareToWait makes a session one that can wait. It waits without a snapshot where that can be had; else (no right to
// make temporary objects or to use PL/pgSQL, a standby, a server on which it does not work) in slices.
func (s *session) prepareToWait(ctx context.Context) error {
	if _, err := s.conn.Prepare(ctx, s.names.unlock, guarded(lockdb.UnlockOne, 1, s.pid)); err != nil {
		return classify(err)
	}
	if s.backend.sliced.Load() {
		return nil
	}
	err := s.prepareWaitWithoutSnapshot(ctx)
	switch serverCode(err) {
	case codeInsufficientPrivilege, codeReadOnly, codeFeatureNotSupported, codeUndefinedObject:
		s.backend.waitInSlices(err)
		return nil
	}
	return classify(err)
}

// prepareWaitWithoutSnapshot makes what that takes, and goes through it once without a key.
func (s *session) prepareWaitWithoutSnapshot(ctx context.Context) error {
	db := lockdb.New(s.conn)
	if err := db.CreateSettleFunction(ctx); err != nil {
		return err
	}
	if err := db.CreateWaitDomain(ctx); err != nil {
		return err
	}
	if err := db.CreateWaitProcedure(ctx); err != nil {
		return err
	}
	if _, err := db.PrepareWait(ctx, lockdb.PrepareWaitParams{Pid: s.pid, Operations: []int16{}, Numbers: []int64{}}); err != nil {
		return err
	}
	return db.WaitWithoutSnapshot(ctx)
}

// waitInSlices says once what is lost, for all sessions to come.
func (b *Backend) waitInSlices(why error) (first bool) {
	if first = b.sliced.CompareAndSwap(false, true); first {
		b.env.Logger.Warn("pglock: waiters of this Locker cannot wait without a snapshot, and wait in slices: they lose "+
			"their place in the server's queue every few seconds, and hold back vacuum and CREATE INDEX CONCURRENTLY for "+
			"as long (GRANT TEMPORARY ON DATABASE and USAGE ON LANGUAGE sql, plpgsql help if those are missing)",
			"error", why)
	}
	return first
}

// waitFor asks for g's keys and waits for them.
func (s *session) waitFor(ctx context.Context, conn *pgx.Conn, g *grant) (outcome string, err error) {
	s.waiting.Store(true)
	defer s.waiting.Store(false)
	if s.backend.sliced.Load() {
		return s.waitSliced(ctx, conn, g)
	}
	operations := make([]int16, g.len())
	for i := range operations {
		a := ask{grant: g}
		operations[i] = a.operation(i)
	}
	db := lockdb.New(conn)
	outcome, err = db.PrepareWait(ctx, lockdb.PrepareWaitParams{Pid: s.pid, Operations: operations, Numbers: g.numbers()})
	if err != nil || outcome != "granted" {
		return outcome, err
	}
	s.backend.probeWaits()
	err = db.WaitWithoutSnapshot(ctx)
	if code := serverCode(err); code == codeUndefinedFunction || code == codeInvalidSchemaName {
		err = fmt.Errorf("%w: the temporary objects of the lock session are gone, as after DISCARD by a proxy: %w",
			driver.ErrUnavailable, err)
	}
	return outcome, err
}

// waitSliced waits again and again, since each statement has a snapshot that must be given back.
func (s *session) waitSliced(ctx context.Context, conn *pgx.Conn, g *grant) (outcome string, err error) {
	if err := lockdb.New(conn).SliceWaits(ctx); err != nil {
		return "", err
	}
	for {
		row, err := lockdb.New(conn).LockSession(ctx, lockdb.LockSessionParams{
			Shared: g.shared, Spaces: g.spaces(), Numbers: g.numbers(),
			Pid: s.pid, AllowStandby: s.backend.config.AllowStandby,
		})
		if serverCode(err) != codeLockNotAvailable || ctx.Err() != nil {
			return row.Outcome, err
		}
		s.cleanUp(conn) // of several keys it has those before the one it waited for
		if s.isDead() {
			return "", s.deathCause()
		}
	}
}

// probeWaits looks, once for a Backend, whether a session that waits really has no snapshot: that rests on how PL/pgSQL
// works inside. If it has one all waits begin again, in slices.
func (b *Backend) probeWaits() {
	if !b.probing.CompareAndSwap(false, true) {
		return
	}
	b.spawn(func() {
		for attempt := 0; pause(b.life, backoff(attempt)) && !b.sliced.Load(); attempt++ {
			for _, s := range b.pool.all() {
				if s.waiting.Load() && b.inspect(s) {
					return
				}
			}
		}
	})
}

// inspect reports whether it is known afterwards whether waits must be sliced.
func (b *Backend) inspect(s *session) (known bool) {
	row, waits, err := b.lanes.call(b.life, lockdb.WaitHasSnapshot, text(int32(s.pg.PID())))
	if err != nil || !waits {
		return false // a wait that has not begun yet, or has ended, or is not one in the server
	}
	if row == "t" && b.waitInSlices(errWaitsWithSnapshot) {
		b.endWaits(b.life)
	}
	return true
}

// endWaits ends the sessions that wait. Their callers ask again on new ones.
func (b *Backend) endWaits(ctx context.Context) {
	for _, s := range b.pool.all() {
		if !s.waiting.Load() {
			continue
		}
		if _, _, err := b.lanes.call(ctx, lockdb.EndSession, text(int32(s.pg.PID()))); err != nil {
			b.env.Logger.Warn("pglock: a session that waits with a snapshot could not be ended", "pid", s.pg.PID(), "error", err)
		}
	}
}

var errWaitsWithSnapshot = errors.New("the statement that should wait without a snapshot has one")

func text(n int32) string { return strconv.Itoa(int(n)) }
