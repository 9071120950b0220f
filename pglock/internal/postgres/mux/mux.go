package mux

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Config says how to make a [Mux].
type Config struct {
	// Open opens a session: it connects, and calls [NewSession] with onEnd. It bounds how long that may take.
	Open func(ctx context.Context, onEnd func(*Session)) (*Session, error)
	// Sessions is how many sessions there may be.
	Sessions int
	Log      *slog.Logger
}

// Mux has the mux sessions of a backend. A try goes to the one with the fewest callers. The first session is opened
// when one is needed, and others when a caller finds all of them busy.
type Mux struct {
	config Config
	open   atomic.Pointer[[]*Session]

	life  context.Context // ends with Close
	end   context.CancelFunc
	dials sync.WaitGroup

	mu      sync.Mutex
	closed  bool  // for tries
	dial    *dial // the running dial; nil without one
	retryAt time.Time
	fails   int // in a row
}

// dial is the opening of one session.
type dial struct {
	done chan struct{} // closed when err is set
	err  error
}

// New returns a Mux that has not dialled yet.
func New(config Config) *Mux {
	m := &Mux{config: config}
	m.life, m.end = context.WithCancel(context.Background())
	m.open.Store(&[]*Session{})
	return m
}

// Try locks the key of g on one of the sessions, without waiting for its holder ([driver.ErrNotAcquired]). If a session
// ends before it answers, another one is asked.
func (m *Mux) Try(ctx context.Context, g *Grant) error {
	return m.on(ctx, func(s *Session) error { return s.Try(ctx, g) })
}

// TryAll is Try for several grants, on one session.
func (m *Mux) TryAll(ctx context.Context, grants []*Grant) []error {
	s, err := m.session(ctx)
	if err != nil {
		return slices.Repeat([]error{err}, len(grants))
	}
	errs := s.doAll(ctx, try, grants)
	for i, err := range errs {
		switch {
		case HasEnded(err):
			errs[i] = m.Try(ctx, grants[i])
		case err != nil:
			errs[i] = explain(ctx, err)
		}
	}
	return errs
}

// Call runs a statement on any session; it may run twice.
func (m *Mux) Call(ctx context.Context, sql string, args ...string) (value string, some bool, err error) {
	err = m.on(ctx, func(s *Session) (err error) {
		value, some, err = s.Call(ctx, sql, args...)
		return err
	})
	return value, some, err
}

// on calls do with a session, and again with another one if the first ends before it has answered.
func (m *Mux) on(ctx context.Context, do func(*Session) error) error {
	for attempt := 0; ; attempt++ {
		s, err := m.session(ctx)
		if err != nil {
			return err
		}
		if err = do(s); err == nil {
			return nil
		}
		if !HasEnded(err) {
			return explain(ctx, err)
		}
		m.forget(s) // s may not have called it yet
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if attempt >= maxAttempts {
			return sqlstate.ExplainOwn(err)
		}
	}
}

// explain classifies an error. If it is the cause with which ctx has ended, it says nothing about the server, and is
// returned unchanged.
func explain(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return sqlstate.ExplainOwn(err)
}

// session returns the session with the fewest callers. If there is none yet, it waits for the first one.
func (m *Mux) session(ctx context.Context) (*Session, error) {
	for {
		open := *m.open.Load()
		if len(open) > 0 {
			s := slices.MinFunc(open, func(a, b *Session) int { return cmp.Compare(a.load.Load(), b.load.Load()) })
			if len(open) < m.config.Sessions && s.load.Load() > 0 {
				m.dialMore()
			}
			return s, nil
		}
		if err := m.first(ctx); err != nil {
			return nil, err
		}
	}
}

// first waits for a session to be opened, and opens one if no other caller does.
func (m *Mux) first(ctx context.Context) error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return driver.ErrClosed
	}
	if len(*m.open.Load()) > 0 {
		m.mu.Unlock()
		return nil
	}
	d := m.dialLocked()
	m.mu.Unlock()
	select {
	case <-d.done:
		return d.err
	case <-m.life.Done():
		return driver.ErrClosed
	case <-ctx.Done():
		return NothingDone(ctx, ErrNoConnection)
	}
}

// dialMore opens one more session in the background. After a failure it does nothing for a while, and for longer after
// each further one: other sessions are open.
func (m *Mux) dialMore() {
	if !m.mu.TryLock() {
		return // the next caller will
	}
	defer m.mu.Unlock()
	if !m.closed && m.dial == nil && len(*m.open.Load()) < m.config.Sessions && time.Now().After(m.retryAt) {
		m.dialLocked()
	}
}

func (m *Mux) dialLocked() *dial {
	if m.dial == nil {
		m.dial = &dial{done: make(chan struct{})}
		m.dials.Add(1)
		go m.openOne(m.dial)
	}
	return m.dial
}

func (m *Mux) openOne(d *dial) {
	defer m.dials.Done()
	s, err := m.config.Open(m.life, m.forget)
	m.mu.Lock()
	m.dial, d.err = nil, err
	if err != nil {
		m.fails++
		m.retryAt = time.Now().Add(min(maxRedial, minRedial<<min(m.fails, 10)))
	} else {
		m.fails, m.retryAt = 0, time.Time{}
		m.addLocked(s)
	}
	m.mu.Unlock()
	close(d.done)
}

// addLocked adds a session, unless it has ended already. After Refuse the session refuses tries.
func (m *Mux) addLocked(s *Session) {
	all := append(slices.Clone(*m.open.Load()), s)
	m.open.Store(&all)
	switch {
	case s.Ended():
		m.forgetLocked(s)
	case m.closed:
		s.refuse()
	}
}

// forget is called by a session that has ended.
func (m *Mux) forget(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetLocked(s)
}

func (m *Mux) forgetLocked(s *Session) {
	left := slices.DeleteFunc(slices.Clone(*m.open.Load()), func(other *Session) bool { return other == s })
	m.open.Store(&left)
}

// Refuse fails the tries that have not been sent, and all later ones.
func (m *Mux) Refuse() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, s := range *m.open.Load() {
		s.refuse()
	}
	if m.dial != nil {
		m.end() // its waiters get an error
	}
}

// refuse is [Mux.Refuse] for one session.
func (s *Session) refuse() {
	s.mu.Lock()
	s.refusing = true
	s.queue = slices.DeleteFunc(s.queue, func(o *op) bool {
		if o.kind != try {
			return false
		}
		s.endLocked(o, driver.ErrClosed)
		return true
	})
	s.unlock()
}

// Close ends all sessions.
func (m *Mux) Close() {
	m.Refuse()
	m.end()
	m.dials.Wait()
	for _, s := range *m.open.Load() {
		s.End(driver.LostClosed, driver.ErrClosed)
	}
}

const (
	maxAttempts = 3
	minRedial   = 100 * time.Millisecond
	maxRedial   = 10 * time.Second
)
