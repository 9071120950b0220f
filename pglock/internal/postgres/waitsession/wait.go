package waitsession

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
)

// Wait takes r's lock when it is its turn: it waits in the server's queue, on a session that then carries the lock. While
// there is no session for that, it calls try now and then; tried says that this has ended the wait.
//
// A session that ends while it waits held nothing. Then the wait continues on another one.
func (p *Pool) Wait(ctx context.Context, r driver.Request, try func() (over bool)) (g *mux.Grant, tried bool, err error) {
	for attempt := 0; ; attempt++ {
		taken, tried, err := p.takeOrTry(ctx, try)
		if tried || err != nil {
			return nil, tried, err
		}
		g, s := mux.NewGrant(r.Key.KeyID, r.Shared, r.LossHandler), taken.Value()
		s.left = time.Time{}
		err = s.Carry(ctx, g, func() { giveBack(taken) }, func() error { return p.lockOn(ctx, s, g) })
		if err == nil {
			return g, false, nil
		}
		giveBack(taken)
		switch {
		case !mux.HasEnded(err):
			return nil, false, err
		case ctx.Err() != nil:
			return nil, false, fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Cause(ctx))
		case attempt > 0 && !timing.Sleep(ctx, backoff(attempt)):
			return nil, false, context.Cause(ctx)
		}
	}
}

// lockOn waits on a session. When it returns an error the session holds nothing, or has ended.
func (p *Pool) lockOn(ctx context.Context, s *session, g *mux.Grant) error {
	err := p.wait(ctx, s, g)
	if err == nil || mux.HasEnded(err) {
		return err
	}
	if err := s.unlockAll(ctx); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case sqlstate.Of(err) == sqlstate.QueryCanceled: // pg_cancel_backend
		return fmt.Errorf("%w: the wait was cancelled on the server: %w", driver.ErrNotAcquired, err)
	}
	return sqlstate.ExplainOwn(err)
}

// unlockAll releases the key that a failed wait may have left: it may have been granted just when the statement was
// cancelled. If that fails too the session ends, which frees everything.
func (s *session) unlockAll(caller context.Context) error {
	end := time.AfterFunc(s.cleanUpWithin(caller), func() {
		s.End(driver.LostSession, errors.New("clean up after a wait: no answer in time"))
	})
	defer end.Stop()
	object, class := strconv.Itoa(int(s.Guard().Identity)), strconv.Itoa(int(lockkeys.IdentityClass))
	unlock := func() (kept string, err error) {
		kept, _, err = s.Call(context.Background(), lockdb.UnlockAllSession, object, class)
		return kept, err
	}
	kept, err := unlock()
	if sqlstate.Of(err) == sqlstate.QueryCanceled { // late
		kept, err = unlock()
	}
	if err == nil && kept == "t" {
		return nil
	}
	s.End(driver.LostSession, err)
	_, err = unlock() // the error says that the session has ended
	return err
}

// cleanUpWithin returns how long the session may take to clean up: little if its caller's context has ended.
func (s *session) cleanUpWithin(caller context.Context) time.Duration {
	if caller.Err() == nil {
		return cleanUpWithin
	}
	if s.left.IsZero() {
		s.left = time.Now()
	}
	return cancelWithin - time.Since(s.left)
}

// wait asks for the key and waits for it. When ctx ends, it cancels the statement on the server.
func (p *Pool) wait(ctx context.Context, s *session, g *mux.Grant) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ended, requests := make(chan struct{}), make(chan int, 1)
	// Goroutines are started when there is something to do. To end them would delay the grant.
	keepWaiting := context.AfterFunc(ctx, func() { requests <- p.cancelWait(s, ended) })
	watching, stopWatching := context.WithCancel(ctx)
	watched := make(chan struct{})
	watcher := time.AfterFunc(p.config.LookEvery, func() {
		defer close(watched)
		p.watch(watching, s)
	})
	lock, operation := p.waitWithoutSnapshot, strconv.Itoa(int(g.Operation(false)))
	if s.sliced {
		lock = p.waitSliced
	}
	err := lock(ctx, s, operation, g.Key().Number)
	close(ended)
	stopWatching()
	if !watcher.Stop() {
		<-watched // so that it does not end the session of a later wait
	}
	if !keepWaiting() {
		sent := <-requests
		s.spent = sent > 1 || sent == 1 && sqlstate.Of(err) != sqlstate.QueryCanceled
	}
	return err
}

// watch ends the session if the server does not know of its wait any more, or no server can be asked, so that the caller
// asks again on another one. A session that waits sends nothing, so nothing else shows that its network has fallen silent
// where something in between answers for the server, or that addresses lead to another server by now.
//
// One look does not count, since the answer may be on its way. If it arrives just when watch ends the session, the
// caller has a lock that is lost at once. Behind a proxy, which makes up process IDs, there is nothing to look for.
func (p *Pool) watch(ctx context.Context, s *session) {
	if s.GuardPID() == "0" {
		return
	}
	for missed := 0; ctx.Err() == nil; timing.Sleep(ctx, p.config.LookEvery) {
		bounded, cancel := context.WithTimeout(ctx, p.config.LookEvery)
		_, stands, err := p.config.Call(bounded, lockdb.WaitStands, s.PID())
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case stands:
			missed = 0
		case missed == 0:
			missed++
		default:
			s.End(driver.LostSession, errors.Join(errors.New("the server does not know of this session's wait"), err))
			return
		}
	}
}

// cancelWait cancels the statement until it has ended, and returns how many cancels it has sent. A cancel that overtakes the
// statement finds an idle session and does nothing, so one may not be enough.
func (p *Pool) cancelWait(s *session, ended <-chan struct{}) (sent int) {
	select {
	case <-ended: // the answer came as ctx ended
		return 0
	default:
	}
	s.left = time.Now()
	ctx, cancel := context.WithTimeout(p.life, cancelWithin)
	defer cancel()
	for {
		n, err := p.cancel(ctx, s)
		sent += n
		select {
		case <-ended:
			return sent
		default:
		}
		if err != nil {
			s.End(driver.LostSession, fmt.Errorf("cancel a wait: %w", err))
			return sent
		}
		select {
		case <-ended:
			return sent
		case <-ctx.Done():
			s.End(driver.LostSession, fmt.Errorf("cancel a wait: no answer within %v", cancelWithin))
			return sent
		case <-time.After(backoff(sent)):
		}
	}
}

// cancel sends a cancel request. If that fails, since no further connection to the server can be made, it asks a mux session
// to cancel the wait: a server process that waits for a lock may notice the end of its session only when it has the lock.
// cancel returns how many cancels may have been sent.
//
// A request on its way is not given up before its time: PgBouncer 1.18 and 1.19 crash when its connection is closed early
// (https://github.com/pgbouncer/pgbouncer/pull/846), and it might hit a later statement.
func (p *Pool) cancel(ctx context.Context, s *session) (sent int, err error) {
	request, stop := context.WithTimeout(ctx, requestWithin)
	defer stop()
	sent, err = 1, s.Cancel(request)
	if err != nil && s.GuardPID() != "0" { // a proxy makes up process IDs
		if request.Err() != nil {
			sent = 2 // the request may still come
		}
		if _, _, other := p.config.Call(ctx, lockdb.CancelWait, s.PID()); other != nil {
			return sent, errors.Join(err, other)
		}
		err = nil
	}
	return sent, err
}

func backoff(attempt int) time.Duration {
	return min(time.Second, 50*time.Millisecond<<min(attempt, 10))
}

const (
	cancelWithin  = 4 * time.Second // for the server to end a cancelled wait, and for the session to clean up
	requestWithin = 3 * time.Second // for the server to take a cancel request
	cleanUpWithin = 5 * time.Second // after a wait that was not cancelled
)
