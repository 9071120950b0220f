package waitsession

import (
	"context"
	"errors"
	"strconv"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// prepare creates on a new session what waiting without a snapshot requires, and tests it once, without a key. Any error
// that leaves the session alive (no right to make temporary objects or to use PL/pgSQL, a standby, an event trigger that
// refuses, a server on which it does not work) makes the session wait in slices. A server that does not answer ends its lease.
func (p *Pool) prepare(s *session) error {
	const create = lockdb.CreateSettleFunction + ";\n" + lockdb.CreateWaitDomain + ";\n" + lockdb.CreateWaitProcedure
	_, _, err := s.Call(p.life, create)
	if err == nil {
		err = s.announce(p.life, "", 0)
	}
	if err == nil {
		_, _, err = s.Call(p.life, lockdb.WaitWithoutSnapshot)
	}
	switch {
	case err == nil:
		return nil
	case mux.HasEnded(err) || p.life.Err() != nil || errors.Is(err, driver.ErrPooler):
		return sqlstate.ExplainOwn(err)
	}
	s.sliced = true
	p.warn(err)
	return nil
}

// warn logs, once, what slices cost.
func (p *Pool) warn(why error) {
	if p.warned.CompareAndSwap(false, true) {
		p.config.Log.Warn("pglock: waiters of this Locker cannot wait without a snapshot, and wait in slices: they lose "+
			"their place in the server's queue every few seconds, and hold back vacuum and CREATE INDEX CONCURRENTLY for "+
			"as long (GRANT TEMPORARY ON DATABASE and USAGE ON LANGUAGE sql, plpgsql help if those are missing; event "+
			"triggers may refuse temporary objects)", "error", why)
	}
}

// announce tells the session what the next wait is for; without an operation it is for nothing.
func (s *session) announce(ctx context.Context, operation string, number int64) error {
	outcome, _, err := s.Call(ctx, lockdb.PrepareWait, s.GuardPID(), operation, strconv.FormatInt(number, 10))
	if err != nil {
		return err
	}
	return wire.Refusal(outcome)
}

func (p *Pool) waitWithoutSnapshot(ctx context.Context, s *session, operation string, number int64) error {
	if err := s.announce(context.Background(), operation, number); err != nil {
		return err
	}
	_, _, err := s.Call(context.Background(), lockdb.WaitWithoutSnapshot)
	if code := sqlstate.Of(err); code == sqlstate.UndefinedFunction || code == sqlstate.InvalidSchemaName {
		s.sliced = true // as after DISCARD by a proxy
		p.warn(err)
		return p.waitSliced(ctx, s, operation, number)
	}
	return err
}

// waitSliced waits in slices, each of them one statement, since a statement keeps its snapshot until it ends.
func (p *Pool) waitSliced(ctx context.Context, s *session, operation string, number int64) error {
	if _, _, err := s.Call(context.Background(), lockdb.SliceWaits); err != nil {
		return err
	}
	for {
		outcome, _, err := s.Call(context.Background(), lockdb.LockSession, s.GuardPID(), operation, strconv.FormatInt(number, 10))
		switch {
		case err == nil:
			return wire.Refusal(outcome)
		case sqlstate.Of(err) != sqlstate.LockNotAvailable || ctx.Err() != nil:
			return err
		}
	}
}
