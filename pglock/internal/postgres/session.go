package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/txguard"
)

// session is one connection to the server, and the lease on what it holds.
//
// The connection belongs to one goroutine at a time: to the listener, which reads from the idle socket so that the end
// of the session is seen at once, and which sends heartbeats; or to whoever runs a statement with do, which stops the
// listener for as long as that takes.
//
// The server ends a session that it has heard nothing from for the lease (idle_session_timeout, PostgreSQL 14 and
// later). Its clock starts when it gets ready for the next statement, which is after the last one was sent; so the
// session can be trusted until the last answered statement's sending plus the lease, less a margin.
type session struct {
	backend   *Backend
	conn      *pgx.Conn
	pg        *pgconn.PgConn
	lockTable int   // nominal size of the server's lock table
	pid       int32 // as the server gave it; 0 where a proxy is allowed to have made it up
	names     statementNames
	identity  txguard.Identity

	turn     chan struct{} // holds one token; whoever took it may stop the listener and use conn
	stop     context.CancelFunc
	listener chan struct{} // closed when the listener has returned
	attended bool          // there is one, or it has ended by itself; of whoever has the token

	trustedUntil atomic.Int64 // a driver.Instant
	waiting      atomic.Bool  // a statement runs that may be cancelled on the server
	mayDial      atomic.Bool  // while connecting, and while cancelling a wait
	stopCancel   func()       // ends the cancel requests; see HandleCancel
	cancels      int          // requests sent for the statement that runs
	lateCancels  int          // requests that may hit a later statement

	mu        sync.Mutex
	state     sessionState
	idleSince driver.Instant
	grant     *grant
	cause     error // why the session is dead
}

type sessionState int

const (
	inUse sessionState = iota // somebody's: taken from the idle ones, or just dialled
	idle
	dead
)

// attend starts the listener. It is called by the owner of the connection.
func (s *session) attend() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.listener, s.attended = cancel, make(chan struct{}), true
	go func() {
		defer close(s.listener)
		s.listen(ctx)
	}()
}

// listen reads until ctx ends or the session does.
func (s *session) listen(ctx context.Context) {
	for {
		quiet, cancel := context.WithTimeout(ctx, min(s.heartbeatEvery(), s.deadline().Sub(driver.Now())))
		err := s.pg.WaitForNotification(quiet) // nil is a notification, which nobody asked for
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case s.pg.IsClosed():
			s.end(driver.ReasonSession, err)
			return
		case quiet.Err() != nil && !s.heartbeat():
			return
		}
	}
}

// heartbeat renews the lease, and reports whether the session goes on.
func (s *session) heartbeat() bool {
	if s.backend.pool.retire(s) {
		s.hangUp(context.Background())
		return false
	}
	if driver.Now() >= s.deadline() {
		// Frozen for longer than the lease: an answer now would not tell whether the session had been ended before.
		s.end(driver.ReasonLease, nil)
		return false
	}
	if err := s.beat(); err != nil {
		s.end(s.reasonNow(), err)
		return false
	}
	return true
}

// beat makes one round trip, bounded by the lease. The caller owns the connection.
func (s *session) beat() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.deadline().Sub(driver.Now()))
	defer cancel()
	sent := driver.Now()
	err := lockdb.New(s.conn).Heartbeat(ctx)
	for s.late(err) {
		err = lockdb.New(s.conn).Heartbeat(ctx)
	}
	if err == nil {
		s.trustSince(sent)
	}
	return err
}

// do runs fn with the connection. A session that dies under it is ended with the reason, and fn's error returned. While
// the session carries a grant, fn's statements must be done before the lease is over.
func (s *session) do(ctx context.Context, fn func(*pgx.Conn) error) error {
	if err := s.seize(ctx); err != nil {
		return err
	}
	defer s.yield()
	return s.run(fn)
}

// doAndLeave is do for a wait: it returns before there is a listener again; see attendant.
func (s *session) doAndLeave(ctx context.Context, fn func(*pgx.Conn) error) error {
	if err := s.seize(ctx); err != nil {
		return err
	}
	s.backend.attendant.expect()
	defer func() {
		s.turn <- struct{}{}
		s.backend.attendant.leave(s)
	}()
	return s.run(fn)
}

// query runs a statement that may run twice: a late cancel request is not its end, nor is somebody's pg_cancel_backend.
// Its answer proves that the session was alive when the statement was sent. The caller waits for no longer than ctx; the
// statement is not given up for that, since the session would be given up with it, but goes on until the session's time
// is over.
func query[T any](ctx context.Context, s *session, fn func(context.Context, *pgx.Conn) (T, error)) (answer T, err error) {
	type result struct {
		answer T
		err    error
	}
	answered := make(chan result, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.deadline().Sub(driver.Now()))
		defer cancel()
		var r result
		r.err = s.do(ctx, func(conn *pgx.Conn) (err error) {
			sent := driver.Now()
			r.answer, err = fn(ctx, conn)
			for again := true; s.late(err) || again && serverCode(err) == codeQueryCanceled; again = false {
				r.answer, err = fn(ctx, conn)
			}
			if err == nil {
				s.trustSince(sent)
			}
			return err
		})
		answered <- r
	}()
	select {
	case r := <-answered:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, fmt.Errorf("%w: no answer: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
}

// run is fn on the connection, which the caller owns.
func (s *session) run(fn func(*pgx.Conn) error) error {
	if s.isDead() {
		return s.deathCause()
	}
	if s.carries() {
		// The listener, which ends the session when its time is over, has stopped for this.
		watch := time.AfterFunc(s.deadline().Sub(driver.Now()), func() { s.end(driver.ReasonLease, nil) })
		defer watch.Stop()
	}
	err := fn(s.conn)
	if s.pg.IsClosed() {
		if err == nil {
			err = errors.New("the connection is closed")
		}
		s.end(s.reasonNow(), err)
	}
	return err
}

// seize takes the connection from the listener.
func (s *session) seize(ctx context.Context) error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.stop()
	select {
	case <-s.listener:
		s.attended = false
		return nil
	case <-ctx.Done():
		// The listener is in the middle of a heartbeat. It is left to end that, and then somebody has to listen again.
		go func() {
			<-s.listener
			s.yield()
		}()
		return context.Cause(ctx)
	}
}

// yield gives the connection back to a listener.
func (s *session) yield() {
	if !s.isDead() {
		s.attend()
	}
	s.turn <- struct{}{}
}

// attach makes g the session's grant, unless the session has ended already.
func (s *session) attach(g *grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == dead {
		return s.cause
	}
	s.grant = g
	return nil
}

// detach takes the grant off; from now on the end of the session is nobody's loss. It reports false when the session
// ended first, which has been told to the grant's holder.
func (s *session) detach(g *grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grant != g || s.state == dead {
		return false
	}
	s.grant = nil
	return true
}

// end closes the socket, which frees everything the session holds as soon as the server sees it, and tells the holder
// of the grant. Only the first call does anything; anybody may call it.
func (s *session) end(why driver.Reason, err error) {
	s.mu.Lock()
	if s.state == dead {
		s.mu.Unlock()
		return
	}
	s.state = dead
	s.cause = ended(why, err)
	lost := s.grant
	s.grant = nil
	s.mu.Unlock()

	if lost != nil {
		lost.tell(why, err)
		s.backend.uncount(lost)
		s.backend.env.Logger.Warn("lock session ended", "pid", s.pg.PID(), "reason", why, "error", err)
	} else {
		s.backend.env.Logger.Debug("lock session ended", "pid", s.pg.PID(), "reason", why, "error", err)
	}
	s.backend.pool.forget(s)
	_ = s.pg.Conn().Close() // a failure to close a socket that is given up changes nothing
}

// close ends the session politely, with a Terminate message, if the connection can be had before ctx ends.
func (s *session) close(ctx context.Context) error {
	if err := s.seize(ctx); err != nil {
		s.end(driver.ReasonClosed, err)
		return fmt.Errorf("close lock session: %w", err)
	}
	s.hangUp(ctx)
	s.turn <- struct{}{}
	return nil
}

// dismiss closes a session that nobody needs. A failure has ended it too.
func (s *session) dismiss() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_ = s.close(ctx)
}

// hangUp says goodbye to the server. The caller owns the connection.
func (s *session) hangUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	if !s.isDead() {
		_ = s.conn.Close(ctx) // it closes the socket in any case
	}
	s.end(driver.ReasonClosed, nil)
}

// claim takes an idle session into use, and reports false when it has ended.
func (s *session) claim() bool { return s.move(idle, inUse) }

// rest makes a session idle, and reports false when it has ended.
func (s *session) rest() bool { return s.move(inUse, idle) }

func (s *session) move(from, to sessionState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != from {
		return false
	}
	s.state, s.idleSince = to, driver.Now()
	return true
}

// expired reports whether the session has been idle for so long that it is not kept.
func (s *session) expired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == idle && driver.Now().Sub(s.idleSince) > idleFor
}

func (s *session) carries() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grant != nil
}

func (s *session) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == dead
}

func (s *session) deathCause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// deadline is until when the session can be trusted.
func (s *session) deadline() driver.Instant { return driver.Instant(s.trustedUntil.Load()) }

// trustSince moves the deadline for a statement that was sent at that moment and has been answered.
func (s *session) trustSince(sent driver.Instant) {
	s.trustedUntil.Store(int64(sent.Add(s.lease() - s.lease()/10)))
}

func (s *session) lease() time.Duration          { return s.backend.env.Lease }
func (s *session) heartbeatEvery() time.Duration { return s.lease() / 5 }

// reasonNow tells a session that broke from one that fell silent.
func (s *session) reasonNow() driver.Reason {
	if driver.Now() >= s.deadline() {
		return driver.ReasonLease
	}
	return driver.ReasonSession
}

// late reports whether err is a cancel request that was meant for an earlier statement and hit this one.
func (s *session) late(err error) bool {
	if serverCode(err) != codeQueryCanceled || s.lateCancels == 0 {
		return false
	}
	s.lateCancels--
	return true
}

// HandleCancel implements [ctxwatch.Handler]: the context of a running statement has ended. A wait for a lock is
// cancelled on the server, so that the session lives on and nothing stays behind in the server's queue. Any other
// statement is given up with its connection.
func (s *session) HandleCancel(context.Context) {
	socket := s.pg.Conn()
	if !s.waiting.Load() {
		_ = socket.SetDeadline(time.Unix(1, 0)) // fails only on a closed socket
		return
	}
	_ = socket.SetDeadline(time.Now().Add(cancelPatience))
	s.mayDial.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), cancelPatience)
	again, enough := context.WithCancel(ctx)
	done := make(chan struct{})
	s.stopCancel = func() {
		enough()
		// A request that is on its way is not given up: PgBouncer 1.18 and 1.19 crash when its connection is closed
		// before they have done so (https://github.com/pgbouncer/pgbouncer/pull/846), and it might hit a later statement.
		giveUp := time.AfterFunc(answerPatience, cancel)
		<-done
		giveUp.Stop()
		cancel()
	}
	go func() {
		defer close(done)
		// A request that overtakes the statement finds an idle session and does nothing, so one may not be enough.
		for attempt := 0; ; attempt++ {
			s.cancels = attempt + 1
			if err := s.pg.CancelRequest(ctx); err != nil && again.Err() == nil {
				_ = socket.SetDeadline(time.Unix(1, 0))
				return
			}
			if !pause(again, backoff(attempt)) {
				return
			}
		}
	}()
}

// HandleUnwatchAfterCancel implements [ctxwatch.Handler]: the statement has ended.
func (s *session) HandleUnwatchAfterCancel() {
	if s.stopCancel != nil {
		s.stopCancel()
		s.mayDial.Store(false)
		s.stopCancel = nil
		s.lateCancels += s.cancels
	}
	_ = s.pg.Conn().SetDeadline(time.Time{})
}

const (
	cancelPatience = 5 * time.Second // for the server to end a cancelled wait
	farewell       = 2 * time.Second // for a Terminate message to be sent
)
