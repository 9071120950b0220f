package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/options"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Errors to match with [errors.Is].
var (
	// ErrResigned is the [context.Cause] of lead's context after [Elector.Resign].
	ErrResigned = errors.New("the leader has resigned")
	// ErrRunning is returned by Run while another Run of the same Elector has not returned.
	ErrRunning = errors.New("the elector is already running")
)

// Elector campaigns in one election. Make it with [New]. All methods may be called concurrently.
type Elector struct {
	locker *pglock.Locker
	key    pglock.Key
	config config

	mu      sync.Mutex
	running bool
	term    *term // from the grant until lead has returned and the lock has been unlocked
}

// New returns an Elector for the election named by key: of all processes that campaign with an equal key on the same
// server, one leads. New does not start to campaign; [Elector.Run] does. Any other lock of the same key counts too:
// while one is held, there is no leader. A nil Locker and an invalid key are errors.
func New(l *pglock.Locker, key pglock.Key, opts ...Option) (*Elector, error) {
	if l == nil {
		return nil, errors.New("pglock/leader: the Locker is nil")
	}
	if err := key.Check(); err != nil {
		return nil, fmt.Errorf("pglock/leader: %w", err)
	}
	c := config{minPause: defaultMinPause, maxPause: defaultMaxPause}
	if err := options.Apply(&c, opts); err != nil {
		return nil, fmt.Errorf("pglock/leader: %w", err)
	}
	return &Elector{locker: l, key: key, config: c}, nil
}

// Run is [New] and [Elector.Run] in one call.
func Run(
	ctx context.Context, l *pglock.Locker, key pglock.Key,
	lead func(ctx context.Context, lock *pglock.Lock) error, opts ...Option,
) error {
	e, err := New(l, key, opts...)
	if err != nil {
		return err
	}
	return e.Run(ctx, lead)
}

// IsLeader reports whether this process leads now. It leads until the context of lead ends. IsLeader checks the clock,
// as [pglock.Lock.Err] does. The answer may change at any time.
func (e *Elector) IsLeader() bool {
	t := e.currentTerm()
	return t != nil && t.ctx.Err() == nil
}

// Leader asks the server who leads, in any process; ok is false if there is no leader. The answer may be out of date by
// the time Leader returns. What is known about a leader depends on the backend; see [pglock.Holder]. Its host and
// process ID are in Token on Redis, and in Client with locks in rows (package rowlock).
func (e *Elector) Leader(ctx context.Context) (leader pglock.Holder, ok bool, err error) {
	holders, err := e.locker.Holders(ctx, e.key)
	if err != nil || len(holders) == 0 {
		return pglock.Holder{}, false, err
	}
	return holders[0], true, nil
}

// Resign ends this process's term. The context of lead ends with [ErrResigned] as its cause. Resign returns when
// lead has returned and the lock is free, so that another process can lead. This process campaigns again after the
// shortest pause of [WithBackoff]; to stop it, end the context of Run.
//
// Resign returns nil at once if this process does not lead, or if ctx descends from the context of lead: lead cannot
// wait for itself to return. If ctx ends first, the error matches the context's; the context of lead has ended
// nevertheless.
func (e *Elector) Resign(ctx context.Context) error {
	t := e.currentTerm()
	if t == nil {
		return nil
	}
	t.withdraw(ErrResigned)
	if ctx.Value(termKey{}) == t {
		return nil
	}
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pglock/leader: resign from %s: lead has not returned: %w", shorttext.Quote(e.key.String()), context.Cause(ctx))
	}
}

// HealthCheck returns an error if lead is still running more than margin after its context ended. This process may then
// be doing the same work as a new leader, and should be restarted. HealthCheck is meant for a liveness probe. A process
// that does not lead is healthy, even if the server cannot be reached. A negative margin is an error.
func (e *Elector) HealthCheck(margin time.Duration) error {
	if margin < 0 {
		return fmt.Errorf("pglock/leader: HealthCheck(%v): the margin is negative", margin)
	}
	t := e.currentTerm()
	if t == nil || t.ctx.Err() == nil {
		return nil
	}
	over := driver.Now().Sub(t.endedAt())
	if over <= margin {
		return nil
	}
	return fmt.Errorf("pglock/leader: the leader of %s is still running %v after its context ended: %w",
		shorttext.Quote(e.key.String()), over.Round(time.Millisecond), context.Cause(t.ctx))
}

func (e *Elector) currentTerm() *term {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term
}
