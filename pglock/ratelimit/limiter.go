package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Limiter decides what may happen now. Make one for each server in a process and share it among all goroutines, since
// those that ask at the same time share a statement. It needs no closing. All methods may be called concurrently.
//
// A key names what is limited, such as "login:203.0.113.7": valid UTF-8 without NUL, of 1 to 1024 bytes. Use one Limit
// for each key: to apply two limits to one thing use two keys. A key's Limit may change; what was let through before
// still counts.
type Limiter struct {
	store  Store
	config config
	seed   maphash.Seed
	queues [queues]queue
}

// Decision is a decision of a [Limiter], with the state of the key after it.
type Decision struct {
	// OK reports whether it may happen. If so, it has been counted.
	OK bool
	// Burst is how many may happen at once after a pause.
	Burst int
	// Remaining is how many more could happen now.
	Remaining int
	// RetryAfter is how long to wait before asking for the same number again, if there are no other requests. It is
	// zero if OK is true, and also if the request was refused only because an earlier, larger one was; see
	// [Limiter.AllowN].
	RetryAfter time.Duration
	// ResetAfter is how long it takes until the whole Burst is available again, if there are no
	// requests.
	ResetAfter time.Duration
	// At is when it was decided, by the server's clock.
	At time.Time
	// Outage is why the server could not be asked, if [OnOutage] made the decision. Then OK is the only other field
	// with a meaning.
	Outage error
}

// NewWithStore returns a Limiter that uses a store other than PostgreSQL. It is meant for packages that
// implement one.
func NewWithStore(store Store, opts ...Option) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("pglock/ratelimit: the store is nil")
	}
	l, err := newLimiter(opts)
	if err == nil && l.config.owners != nil {
		err = fmt.Errorf("pglock/ratelimit: WithTrustedOwner: %w (only PostgreSQL has owners)", pglock.ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	l.store = store
	return l, nil
}

func newLimiter(opts []Option) (*Limiter, error) {
	config, err := newConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("pglock/ratelimit: %w", err)
	}
	l := &Limiter{config: config, seed: maphash.MakeSeed()}
	for i := range l.queues {
		l.queues[i].limiter = l
	}
	return l, nil
}

// Allow is [Limiter.AllowN] with an n of 1.
func (l *Limiter) Allow(ctx context.Context, key string, limit Limit) (Decision, error) {
	return l.AllowN(ctx, key, limit, 1)
}

// AllowN decides at once whether n may happen now: all of them or none. An n above the limit's Burst could never be let
// through and is an error, as is one below 1.
//
// Callers of one process that ask for a key at the same moment are let through in the order of their calls, up to the
// first that is refused: a small request does not overtake a large one.
//
// If ctx ends before the request is sent, nothing is counted. If it ends later, the request may have been counted, as
// after any error.
func (l *Limiter) AllowN(ctx context.Context, key string, limit Limit, n int) (Decision, error) {
	r, err := newRequest(key, limit, n, 0)
	if err != nil {
		return Decision{}, refused(key, err)
	}
	if err := l.decide(ctx, r); err != nil {
		return l.outage(key, err)
	}
	decision := r.decision()
	r.recycle()
	return decision, nil
}

// outage makes the decision when there is no answer.
func (l *Limiter) outage(key string, err error) (Decision, error) {
	err = refused(key, err)
	isOutage := errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrStandby)
	if l.config.outage == Fail || !isOutage {
		return Decision{}, err
	}
	return Decision{OK: l.config.outage == Permit, Outage: err}, nil
}

// Prune deletes the state of keys that have been idle so long that it no longer matters, and returns the number of
// keys. It reads the whole table, so call it occasionally, for example every hour, from one process. On Redis state
// expires by itself, and Prune does nothing.
func (l *Limiter) Prune(ctx context.Context) (int64, error) {
	pruner, ok := l.store.(Pruner)
	if !ok {
		return 0, nil
	}
	n, err := pruner.Prune(ctx)
	if err != nil {
		return n, fmt.Errorf("pglock/ratelimit: prune: %w", err)
	}
	return n, nil
}

// request is one call that asks for a decision.
type request struct {
	key      string
	burst    int
	shape    shape
	amount   int64
	patience int64

	// The answer:
	ok     bool
	until  int64 // the key's time after the request, or what it would be
	before int64 // the key's time if the request is not let through
	at     int64
	err    error
}

const maxKey = 1024

// ErrExceedsBurst: the request is for more than the limit's Burst, so it could never be let through at once.
var ErrExceedsBurst = errors.New("more than the limit's burst")

func newRequest(key string, limit Limit, n int, patience time.Duration) (*request, error) {
	shape, err := limit.shape()
	switch {
	case err != nil:
		return nil, err
	case key == "":
		return nil, errors.New("the key is empty")
	case len(key) > maxKey:
		return nil, fmt.Errorf("the key has %d bytes, and at most %d fit (use a hash instead)", len(key), maxKey)
	case !utf8.ValidString(key) || strings.Contains(key, "\x00"):
		return nil, errors.New("the key is not valid UTF-8, or contains NUL")
	case n < 1:
		return nil, fmt.Errorf("%d were asked for, want at least one", n)
	case n > limit.burst():
		return nil, fmt.Errorf("%w: %d were asked for, and the limit is %v", ErrExceedsBurst, n, limit)
	}
	r := requests.Get().(*request)
	r.key, r.burst, r.shape, r.amount, r.patience = key, limit.burst(), shape, int64(n), int64(min(patience, maxSpan))
	return r, nil
}

// requests holds requests that are no longer used.
var requests = sync.Pool{New: func() any { return new(request) }}

// recycle lets another call use r. The answer must have been received.
func (r *request) recycle() {
	*r = request{}
	requests.Put(r)
}

func (r *request) price() int64 { return r.amount * r.shape.interval }

// decision turns the answer into a Decision.
func (r *request) decision() Decision {
	d := Decision{OK: r.ok, Burst: r.burst, At: time.Unix(0, r.at)}
	now := r.until
	if !r.ok {
		now = r.before
		d.RetryAfter = time.Duration(max(0, r.before+r.price()-r.shape.tolerance-r.at))
	}
	d.Remaining = int(max(0, (r.at+r.shape.tolerance-now)/r.shape.interval))
	d.ResetAfter = time.Duration(max(0, now-r.at))
	return d
}

func refused(key string, err error) error {
	return fmt.Errorf("pglock/ratelimit: key %s: %w", shorttext.Quote(key), shorttext.Error(err))
}
