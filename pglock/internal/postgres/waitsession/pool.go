package waitsession

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
)

// Config says how to make a [Pool].
type Config struct {
	// Open opens a session, and bounds how long that may take.
	Open func(ctx context.Context, onEnd func(*mux.Session)) (*mux.Session, error)
	// Call runs a statement on a mux session, which never waits.
	Call func(ctx context.Context, sql string, args ...string) (value string, some bool, err error)
	// Most is how many sessions may wait or carry a lock at once, and how many idle ones are kept.
	Most int
	// PrepareWithin bounds how long an open session may take to get ready to wait.
	PrepareWithin time.Duration
	// LookEvery is how often to look whether the server still knows of a wait.
	LookEvery time.Duration
	Log       *slog.Logger
}

// Pool has the sessions that wait, carry a lock that was waited for, or are kept for the next wait. A caller that needs
// a session gets an idle one or, if there is none, the first that becomes free or is opened, even if it was opened for
// another caller. So a caller that gives up wastes nothing: the session that was being opened for it goes to the next.
type Pool struct {
	config Config
	began  time.Time
	places *semaphore.Weighted // for sessions that wait or carry a lock
	warned atomic.Bool         // warn has logged

	life       context.Context // ends with Close
	end        context.CancelFunc
	background sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	open    map[*mux.Session]*session
	idle    []*session // the most recently used last
	wanted  []chan result
	dialing int
}

type result struct {
	session *session
	err     error
}

// session is a mux session that can wait.
type session struct {
	*mux.Session
	sliced bool        // it waits in slices: it lacks what waiting without a snapshot requires
	late   int         // cancel requests that may hit a later statement; used by the goroutine that has the session
	left   time.Time   // when the context of the caller ended; likewise
	retire *time.Timer // ends it when it has been idle for idleFor
}

// New returns a Pool that has not dialled yet.
func New(config Config) *Pool {
	p := &Pool{
		config: config, began: time.Now(), places: semaphore.NewWeighted(int64(config.Most)),
		open: map[*mux.Session]*session{},
	}
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

// take returns a session, which the caller has to itself until it calls giveBack.
func (p *Pool) take(ctx context.Context) (*session, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, driver.ErrClosed
	}
	if n := len(p.idle); n > 0 {
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		s.retire.Stop()
		p.mu.Unlock()
		return s, nil
	}
	want := make(chan result, 1)
	p.wanted = append(p.wanted, want)
	if p.dialing < len(p.wanted) {
		p.dialing++
		p.background.Add(1)
		go p.dial()
	}
	p.mu.Unlock()
	select {
	case r := <-want:
		return r.session, r.err
	case <-ctx.Done():
		return nil, p.stopWanting(ctx, want)
	}
}

// stopWanting withdraws the request of a caller whose context has ended. A session that has just been passed to it goes
// to the next caller.
func (p *Pool) stopWanting(ctx context.Context, want chan result) error {
	p.mu.Lock()
	p.wanted = slices.DeleteFunc(p.wanted, func(other chan result) bool { return other == want })
	p.mu.Unlock()
	select {
	case r := <-want:
		if r.err != nil {
			return r.err
		}
		p.giveBack(r.session)
	default:
	}
	return mux.NothingDone(ctx, mux.ErrNoConnection)
}

// dial opens a session for the caller that has waited longest. Its failure ends that wait.
func (p *Pool) dial() {
	defer p.background.Done()
	s, err := p.openOne()
	p.mu.Lock()
	p.dialing--
	if err != nil && len(p.wanted) > 0 {
		p.nextLocked() <- result{err: errCannotOpen{err}}
	}
	p.mu.Unlock()
	if err == nil {
		p.giveBack(s)
	}
}

// errCannotOpen is the error with which a session could not be opened.
type errCannotOpen struct{ error }

func (e errCannotOpen) Unwrap() error { return e.error }

// CannotOpen reports whether err says that there was no session, and that none could be opened. A mux session may work all
// the same: the server, the role or a pooler allows no further one.
func CannotOpen(err error) bool {
	_, ok := errors.AsType[errCannotOpen](err)
	return ok && (errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrTooManyLocks))
}

func (p *Pool) openOne() (*session, error) {
	m, err := p.config.Open(p.life, p.forget)
	if err != nil {
		return nil, err
	}
	s := &session{Session: m}
	s.retire = time.AfterFunc(idleFor, func() { p.retire(s) })
	s.retire.Stop()
	ctx, cancel := context.WithTimeout(p.life, p.config.PrepareWithin)
	defer cancel()
	if err := p.prepare(ctx, s); err != nil {
		s.End(driver.LostClosed, err)
		return nil, err
	}
	p.mu.Lock()
	p.open[m] = s
	p.mu.Unlock()
	if m.Ended() { // before it was known here
		p.forget(m)
	}
	return s, nil
}

func (p *Pool) nextLocked() chan result {
	next := p.wanted[0]
	p.wanted = p.wanted[1:]
	return next
}

// giveBack passes a session on, or keeps it for the next caller.
func (p *Pool) giveBack(s *session) {
	if s.Ended() {
		return
	}
	p.mu.Lock()
	kept := true
	switch {
	case p.closed:
		kept = false
	case len(p.wanted) > 0:
		p.nextLocked() <- result{session: s}
	case len(p.idle) < p.config.Most:
		p.idle = append(p.idle, s)
		s.retire.Reset(idleFor)
	default:
		kept = false
	}
	p.mu.Unlock()
	if !kept {
		s.End(driver.LostClosed, nil)
	}
}

// retire ends a session that has been idle for idleFor.
func (p *Pool) retire(s *session) {
	p.mu.Lock()
	i := slices.Index(p.idle, s)
	if i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	p.mu.Unlock()
	if i >= 0 {
		s.End(driver.LostClosed, nil)
	}
}

// forget is called by a session that has ended.
func (p *Pool) forget(m *mux.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.open[m]; s != nil {
		delete(p.open, m)
		p.idle = slices.DeleteFunc(p.idle, func(other *session) bool { return other == s })
	}
}

// Call runs a statement on a session of the pool, so that it delays no locks.
func (p *Pool) Call(ctx context.Context, sql string, args ...string) (value string, some bool, err error) {
	for attempt := 0; ; attempt++ {
		s, err := p.take(ctx)
		if err != nil {
			return "", false, err
		}
		value, some, err = s.Call(ctx, sql, args...)
		p.giveBack(s)
		if !mux.HasEnded(err) || attempt >= maxAttempts || ctx.Err() != nil {
			return value, some, err
		}
	}
}

// Refuse refuses callers from now on, and ends the waits for a session.
func (p *Pool) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for len(p.wanted) > 0 {
		p.nextLocked() <- result{err: driver.ErrClosed}
	}
}

// Close ends all sessions.
func (p *Pool) Close() {
	p.Refuse()
	p.end()
	p.background.Wait()
	p.mu.Lock()
	open := slices.Collect(maps.Values(p.open))
	p.mu.Unlock()
	for _, s := range open {
		s.retire.Stop()
		s.End(driver.LostClosed, nil)
	}
}

const (
	idleFor     = 30 * time.Second // after which a kept session is closed
	maxAttempts = 3
)
