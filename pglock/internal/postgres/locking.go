package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// lock waits in the server's queue until the session holds all of g's keys. When it returns an error the session holds
// nothing.
//
// The grant and the end of ctx can meet. Whoever comes first at the server wins: if the answer is a grant, the lock is
// held and returned, although ctx has ended; if it is "cancelled", nothing is held.
func (s *session) lock(ctx context.Context, g *grant) error {
	return s.doAndLeave(ctx, func(conn *pgx.Conn) error {
		sent := driver.Now()
		outcome, err := s.waitFor(ctx, conn, g)
		for s.late(err) && ctx.Err() == nil { // when ctx has ended it was meant for this one
			s.cleanUp(conn)
			outcome, err = s.waitFor(ctx, conn, g)
		}
		if err != nil {
			s.cleanUp(conn)
			switch {
			case ctx.Err() == nil && serverCode(err) == codeQueryCanceled: // pg_cancel_backend
				return fmt.Errorf("%w: the wait was cancelled on the server: %w", driver.ErrNotAcquired, err)
			case ctx.Err() == nil:
				return classify(err)
			case s.pg.IsClosed(): // not even the cancel request was answered
				return fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
			}
			return context.Cause(ctx)
		}
		if err := refusal(outcome); err != nil {
			return err
		}
		return s.confirm(g, sent)
	})
}

// confirm attaches a grant that was just answered. The server's lease began when it granted, and after a long wait, or
// with this process frozen meanwhile, the statement's sending does not say when that was: then one more round trip
// does.
func (s *session) confirm(g *grant, sent driver.Instant) error {
	if driver.Now().Sub(sent) < s.heartbeatEvery() {
		s.trustSince(sent)
	} else {
		s.trustSince(driver.Now()) // bounds the beat, which sets it right
		if err := s.beat(); err != nil {
			s.end(driver.ReasonSession, err)
			return classify(err)
		}
	}
	return s.attach(g)
}

// tryLock takes g's keys if that needs no waiting. When it returns an error the session holds nothing.
func (s *session) tryLock(ctx context.Context, g *grant) error {
	return s.do(ctx, func(conn *pgx.Conn) error {
		params := lockdb.TryLockSessionParams{
			Shared: g.shared, Spaces: g.spaces(), Numbers: g.numbers(),
			Pid: s.pid, AllowStandby: s.backend.config.AllowStandby,
		}
		sent := driver.Now()
		row, err := lockdb.New(conn).TryLockSession(ctx, params)
		for s.late(err) {
			s.cleanUp(conn)
			row, err = lockdb.New(conn).TryLockSession(ctx, params)
		}
		if err == nil {
			err = refusal(row.Outcome)
		} else {
			err = classify(err)
		}
		switch {
		case err == nil && row.Granted == int64(g.len()):
			return s.confirm(g, sent)
		case err == nil && row.Granted == 0:
			return driver.ErrNotAcquired
		case err == nil: // some of several
			s.cleanUp(conn)
			return driver.ErrNotAcquired
		}
		s.cleanUp(conn)
		return err
	})
}

// cleanUp gives back whatever a failed statement has left: it stops in the middle, and what it had locked by then stays
// locked, since session locks do not care for the statement's abort. If even that fails the session is ended, which
// frees everything.
func (s *session) cleanUp(conn *pgx.Conn) {
	if s.pg.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpWithin)
	defer cancel()
	if err := s.unlockAll(ctx, conn); err != nil {
		s.end(driver.ReasonSession, err)
	}
}

// unlockAll gives back everything that the session holds.
func (s *session) unlockAll(ctx context.Context, conn *pgx.Conn) error {
	s.identity.Forget()
	err := lockdb.New(conn).UnlockAllSession(ctx)
	for s.late(err) {
		err = lockdb.New(conn).UnlockAllSession(ctx)
	}
	return err
}

// unlock gives g's keys back. The session holds nothing afterwards, or is ended.
func (s *session) unlock(ctx context.Context, g *grant) error {
	if !s.detach(g) {
		return lostBecause(s.deathCause())
	}
	var released int64
	err := s.do(ctx, func(conn *pgx.Conn) (err error) {
		sent := driver.Now()
		released, err = s.release(ctx, conn, g)
		if s.late(err) {
			// The statement may have done its work before the late cancel request ended it. The session holds nothing
			// but this grant, so giving back everything settles it.
			released = int64(g.len())
			err = s.unlockAll(ctx, conn)
		}
		if err == nil {
			s.trustSince(sent)
		}
		return err
	})
	switch {
	case err != nil && ctx.Err() == nil && s.isDead():
		return lostBecause(err) // the session ended before it answered: nobody knows whether the lock was held until now
	case err != nil:
		// It may or may not have arrived; the end of the session frees the locks in any case.
		s.end(driver.ReasonSession, err)
		return fmt.Errorf("the session was ended instead, which frees the lock once the server sees it, "+
			"at the latest when the lease of %v is over: %w", s.lease(), classify(err))
	case released != int64(g.len()):
		err = fmt.Errorf("the server session held %d of %d keys", released, g.len())
		s.end(driver.ReasonSession, err)
		return lostBecause(err)
	}
	return nil
}

// release gives g's keys back and counts those that the session held. The common case has a prepared statement: somebody
// is waiting for this.
func (s *session) release(ctx context.Context, conn *pgx.Conn, g *grant) (released int64, err error) {
	if a := (ask{grant: g}); !a.plainBigint() {
		return lockdb.New(conn).UnlockSession(ctx, lockdb.UnlockSessionParams{
			Shared: g.shared, Spaces: g.spaces(), Numbers: g.numbers(),
		})
	}
	var done bool
	err = conn.QueryRow(ctx, s.names.unlock, g.numbers()[0]).Scan(&done)
	if errors.Is(err, pgx.ErrNoRows) {
		err = refusal("pglock_pooler")
	}
	if done {
		released = 1
	}
	return released, err
}

// check asks the lock manager whether the session holds g's keys.
func (s *session) check(ctx context.Context, g *grant) error {
	held, err := query(ctx, s, func(ctx context.Context, conn *pgx.Conn) (int64, error) {
		return lockdb.New(conn).CheckSession(ctx, lockdb.CheckSessionParams{Spaces: g.spaces(), Numbers: g.numbers()})
	})
	if err != nil {
		return s.explain(err)
	}
	if held != int64(g.len()) {
		err = fmt.Errorf("the server session holds %d of %d keys", held, g.len())
		s.end(driver.ReasonSession, err)
		return lostBecause(err)
	}
	return nil
}

// explain classifies an error of a statement for a held lock: with the session the lock is gone.
func (s *session) explain(err error) error {
	if err != nil && s.isDead() {
		return lostBecause(err)
	}
	return classify(err)
}

const cleanUpWithin = 5 * time.Second
