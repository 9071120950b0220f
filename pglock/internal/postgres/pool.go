package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// pool has the sessions that are not main sessions: those that wait, carry what was waited for, or answer questions.
//
// Who needs one gets an idle one, or the first that gets free or has been dialled, whoever it was dialled for. So a
// caller who leaves costs nothing: what was begun for him is the next one's.
type pool struct {
	backend *Backend

	mu      sync.Mutex
	closed  bool
	open    map[*session]struct{}
	idle    []*session // carrying nothing; the most recently used last
	wanted  []*want    // callers, in the order in which they came
	dialing int
}

// want is a caller who waits for a session.
type want struct {
	ready   chan struct{} // closed when one of these is set
	session *session
	err     error
}

// take returns a session that is the caller's until giveBack.
func (p *pool) take(ctx context.Context) (*session, error) {
	p.mu.Lock()
	for n := len(p.idle); n > 0; n = len(p.idle) {
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		if s.claim() {
			p.mu.Unlock()
			return s, nil
		}
	}
	w := p.want()
	p.mu.Unlock()
	return p.await(ctx, w)
}

// takeNew is take when idle sessions have turned out to be dead.
func (p *pool) takeNew(ctx context.Context) (*session, error) {
	p.mu.Lock()
	w := p.want()
	p.mu.Unlock()
	return p.await(ctx, w)
}

// want queues a caller, and dials if not enough is being dialled. It runs under mu.
func (p *pool) want() *want {
	w := &want{ready: make(chan struct{})}
	if p.closed {
		w.answer(nil, driver.ErrClosed)
		return w
	}
	p.wanted = append(p.wanted, w)
	if p.dialing < len(p.wanted) {
		p.dialing++
		p.backend.background.Go(p.dial)
	}
	return w
}

func (w *want) answer(s *session, err error) {
	w.session, w.err = s, err
	close(w.ready)
}

// await waits for a session. The session and the end of ctx can meet: then the session is the next one's.
func (p *pool) await(ctx context.Context, w *want) (*session, error) {
	select {
	case <-w.ready:
		return w.session, w.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.wanted = slices.DeleteFunc(p.wanted, func(other *want) bool { return other == w })
	p.mu.Unlock()
	select {
	case <-w.ready:
		if w.err != nil {
			return nil, w.err
		}
		p.giveBack(w.session)
	default:
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("%w: %w: %w", driver.ErrUnavailable, errNoConnection, context.Cause(ctx))
}

// dial opens a session for whoever has waited longest. So does its failure end one wait.
func (p *pool) dial() {
	ctx, cancel := context.WithTimeout(p.backend.life, p.backend.config.Conn.ConnectTimeout)
	defer cancel()
	s, err := p.openOne(ctx)
	p.mu.Lock()
	p.dialing--
	if err == nil && s.isDead() { // already; from now on forget takes it out again
		err = fmt.Errorf("%w: %w", driver.ErrUnavailable, s.deathCause())
	}
	if err == nil {
		p.open[s] = struct{}{}
	} else if len(p.wanted) > 0 {
		p.next().answer(nil, err)
	}
	p.mu.Unlock()
	if err == nil {
		p.giveBack(s)
	}
}

func (p *pool) openOne(ctx context.Context) (*session, error) {
	s, err := open(ctx, p.backend)
	if err != nil {
		return nil, err
	}
	if err := s.prepareToWait(ctx); err != nil {
		s.hangUp(ctx)
		return nil, err
	}
	s.attend()
	return s, nil
}

// next takes the first caller out of the queue. It runs under mu.
func (p *pool) next() *want {
	w := p.wanted[0]
	p.wanted = p.wanted[1:]
	return w
}

// giveBack passes a session on, or keeps it for the next caller. A dead one has been forgotten already.
func (p *pool) giveBack(s *session) {
	p.mu.Lock()
	kept := true
	switch {
	case p.closed || s.isDead():
		kept = false
	case len(p.wanted) > 0:
		p.next().answer(s, nil)
	case len(p.idle) < maxIdle && s.rest():
		p.idle = append(p.idle, s)
	default:
		kept = false
	}
	p.mu.Unlock()
	if !kept {
		s.dismiss()
	}
}

// retire takes a session that has been idle for long away from the idle ones, and reports whether it did.
func (p *pool) retire(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.expired() {
		return false
	}
	p.idle = slices.DeleteFunc(p.idle, func(other *session) bool { return other == s })
	return s.claim()
}

// forget is called once by a session that has ended.
func (p *pool) forget(s *session) {
	p.mu.Lock()
	delete(p.open, s)
	p.mu.Unlock()
}

// all returns the sessions that are open.
func (p *pool) all() []*session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.open))
}

// refuse gives no sessions from now on, and ends the wait of those who want one.
func (p *pool) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.idle = nil
	for len(p.wanted) > 0 {
		p.next().answer(nil, driver.ErrClosed)
	}
}

// close ends all sessions.
func (p *pool) close(ctx context.Context) (err error) {
	p.refuse()
	for _, s := range p.all() {
		err = errors.Join(err, s.close(ctx))
	}
	return err
}

const (
	maxIdle = 4                // sessions kept for the next waits
	idleFor = 30 * time.Second // after which a kept session is closed
)
