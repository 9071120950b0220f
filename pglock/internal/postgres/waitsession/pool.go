package waitsession

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/puddle/v2"

	"github.com/pglock-toolkit/pglock/internal/timing"
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
	// LookEvery is how often to look whether the server still knows of a wait.
	LookEvery time.Duration
	Log       *slog.Logger
}

// Pool has the sessions that wait, carry a lock that was waited for, or are kept for the next wait.
type Pool struct {
	config   Config
	began    time.Time
	sessions *puddle.Pool[*session]
	full     atomic.Bool // no further session can be opened
	warned   atomic.Bool // warn has logged

	life context.Context // ends with Close
	end  context.CancelFunc
}

// session is a mux session that can wait.
type session struct {
	*mux.Session
	ended  chan struct{} // closed when its end is complete
	untie  func() bool   // from the life of the pool
	sliced bool          // it waits in slices: it lacks what waiting without a snapshot requires
	left   time.Time     // when the context of the caller ended; used by the goroutine that has the session
	spent  bool          // a cancel request may hit a later statement; likewise
}

// place is one of the places of the pool, with its session.
type place = puddle.Resource[*session]

// New returns a Pool that has not dialled yet.
func New(config Config) (*Pool, error) {
	p := &Pool{config: config, began: time.Now()}
	p.life, p.end = context.WithCancel(context.Background())
	var err error
	p.sessions, err = puddle.NewPool(&puddle.Config[*session]{
		Constructor: p.open, Destructor: p.close, MaxSize: int32(config.Most),
	})
	time.AfterFunc(lookIdle, p.closeIdle)
	return p, err
}

// turn is the key under which the context of a caller that acquires a session has the function that ends it.
type turn struct{}

// open opens a session, also if its caller gives up: the next one gets it. If the server, the role or a pooler allows no
// further session the pool is full for a while, or until one of its sessions ends. Meanwhile open does not dial: it keeps its
// place for a while, and its caller goes to the end of the line for a session that becomes idle.
func (p *Pool) open(ctx context.Context) (*session, error) {
	if !p.full.Load() {
		s, err := p.openOne()
		if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrTooManyLocks) {
			return s, err
		}
		p.full.Store(true)
		defer p.full.Store(false)
	}
	if end, ok := ctx.Value(turn{}).(context.CancelFunc); ok {
		end()
		timing.Sleep(p.life, openAgain)
	}
	return nil, driver.ErrUnavailable
}

func (p *Pool) openOne() (*session, error) {
	ended := make(chan struct{})
	m, err := p.config.Open(p.life, func(*mux.Session) { close(ended) })
	if err != nil {
		return nil, err
	}
	s := &session{Session: m, ended: ended}
	if err := p.prepare(s); err != nil {
		s.End(driver.LostClosed, err)
		return nil, err
	}
	s.untie = context.AfterFunc(p.life, func() { s.End(driver.LostClosed, nil) })
	return s, nil
}

// close ends a session, and returns when its connection is closed.
func (p *Pool) close(s *session) {
	s.untie()
	s.End(driver.LostClosed, nil)
	<-s.ended
	p.full.Store(false)
}

// take returns a place with a session that has not ended, when it is the caller's turn and the server has room for it.
func (p *Pool) take(ctx context.Context) (*place, error) {
	for {
		inTurn, end := context.WithCancel(ctx)
		s, err := p.sessions.Acquire(context.WithValue(inTurn, turn{}, end))
		over := inTurn.Err() != nil
		end()
		switch {
		case err == nil && s.Value().Ended(): // while it was idle
			s.Destroy()
		case err == nil:
			return s, nil
		case p.life.Err() != nil:
			return nil, driver.ErrClosed
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !over:
			return nil, err
		}
	}
}

// giveBack gives a place to the next caller, with its session if another wait may use that.
func giveBack(s *place) {
	if s.Value().spent || s.Value().Ended() {
		s.Destroy()
	} else {
		s.Release()
	}
}

// closeIdle ends the sessions that have been idle for idleFor.
func (p *Pool) closeIdle() {
	for _, s := range slices.Backward(p.sessions.AcquireAllIdle()) { // the most recently used stays the next to be used
		if s.IdleDuration() >= idleFor {
			s.Destroy()
		} else {
			s.ReleaseUnused()
		}
	}
	if p.life.Err() == nil {
		time.AfterFunc(lookIdle, p.closeIdle)
	}
}

// Call runs a statement on an idle session, where it delays no locks. If there is none it runs on a mux session, and one
// is opened for the next call.
func (p *Pool) Call(ctx context.Context, sql string, args ...string) (value string, some bool, err error) {
	if s, err := p.sessions.TryAcquire(p.life); err == nil {
		defer giveBack(s)
		if value, some, err = s.Value().Call(ctx, sql, args...); !mux.HasEnded(err) {
			return value, some, err
		}
	}
	return p.config.Call(ctx, sql, args...)
}

// Close ends all sessions. Those who have a place leave it then.
func (p *Pool) Close() {
	p.end()
	p.sessions.Close()
}

const (
	idleFor   = 30 * time.Second // after which a kept session is closed
	lookIdle  = idleFor / 4
	openAgain = 5 * time.Second // after there was no room for a session
)
