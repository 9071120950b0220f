package ratelimit

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/combine"
	"github.com/pglock-toolkit/pglock/internal/options"
	"github.com/pglock-toolkit/pglock/internal/ratestore"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/records"
)

// Limiter decides what may happen now. Make it with [New], and share it among all goroutines, since those that ask at
// the same time share a statement. It needs no closing. All methods may be called concurrently.
//
// Its methods take an id, which says what is limited: an address, or an account. Each id is counted apart, under the
// text of the Limiter's key ([pglock.Key.String]), a slash, and the id. Without an id it is the text of the key
// alone. That is valid UTF-8 without NUL, of at most 1024 bytes. Use one Limit for each id: to apply two limits to
// one thing use two keys. The Limit of an id may change; what was let through before still counts.
//
// A refusal is a *[RefusedError], which matches [pglock.ErrNotAcquired].
type Limiter struct {
	key    pglock.Key
	name   string // the key's text
	store  ratestore.Store
	config config
	seed   maphash.Seed
	queues [queues]combine.Queue[*request]
}

// Decision is a decision of a [Limiter], with the state of the id after it.
type Decision struct {
	// Burst is the number that may happen at once after a pause.
	Burst int
	// Remaining is the number that could still happen now.
	Remaining int
	// RetryAfter is the pause after which the same number may happen, without other requests. It is zero for an allowed
	// request, and for one refused only because an earlier, larger one was; see [Limiter.AllowN].
	RetryAfter time.Duration
	// ResetAfter is the time until the whole Burst is available again, without requests.
	ResetAfter time.Duration
	// At is when it was decided, by the server's clock.
	At time.Time
}

// RefusedError: the limit is reached, so it may not happen now, or not before the context ends. Nothing was counted. It
// matches [pglock.ErrNotAcquired].
type RefusedError struct {
	Key   pglock.Key // of the Limiter
	ID    string
	Limit Limit
	Decision
}

// Error says what is limited, and when to ask again.
func (e *RefusedError) Error() string {
	text := "no more may happen now"
	if e.RetryAfter > 0 {
		text = fmt.Sprintf("the limit is %v: ask again after %v", e.Limit, e.RetryAfter)
	}
	return fmt.Sprintf("pglock/ratelimit: %s: %s", shorttext.Quote(stateKey(e.Key.String(), e.ID)), text)
}

// Unwrap makes the error match [pglock.ErrNotAcquired].
func (e *RefusedError) Unwrap() error { return pglock.ErrNotAcquired }

func init() {
	ratestore.NewLimiter = func(store ratestore.Store, key, opts any) (any, error) {
		l, err := newLimiter(key.(pglock.Key), opts.([]Option))
		if err == nil && l.config.owners != nil {
			err = fmt.Errorf("pglock/ratelimit: WithTrustedOwner: %w (only PostgreSQL has owners)", pglock.ErrUnsupported)
		}
		if err != nil {
			return nil, err
		}
		l.store = store
		return l, nil
	}
}

func newLimiter(key pglock.Key, opts []Option) (*Limiter, error) {
	if err := key.Check(); err != nil {
		return nil, fmt.Errorf("pglock/ratelimit: %w", err)
	}
	config := config{timeout: defaultTimeout}
	err := options.Apply(&config, opts)
	if err == nil {
		err = check(key.String())
	}
	if err != nil {
		return nil, fmt.Errorf("pglock/ratelimit: %w", err)
	}
	l := &Limiter{key: key, name: key.String(), config: config, seed: maphash.MakeSeed()}
	for i := range l.queues {
		l.queues[i].Send, l.queues[i].Most = l.send, maxBatch
	}
	return l, nil
}

// stateKey is the text under which an id is counted.
func stateKey(name, id string) string {
	if id == "" {
		return name
	}
	return name + "/" + id
}

// check refuses what cannot be stored.
func check(key string) error { return records.CheckText("key with the id", key, pglock.MaxName) }

// Allow is [Limiter.AllowN] with an n of 1.
func (l *Limiter) Allow(ctx context.Context, id string, limit Limit) (Decision, error) {
	return l.AllowN(ctx, id, limit, 1)
}

// AllowN decides at once whether n may happen now: all of them or none. If the error is nil they may, and have been
// counted. If it is a *[RefusedError] they may not; it has the same Decision. An n above the limit's Burst could never
// be let through and is another error, as is one below 1.
//
// Concurrent callers of one process are let through in the order of their calls, for each id, up to the first refusal:
// a small request does not overtake a large one.
//
// During an outage the error matches [pglock.ErrUnavailable], or [pglock.ErrStandby], to which an address may lead during a
// failover: the caller decides whether it may happen then, without a limit.
//
// If ctx ends before the request is sent, nothing is counted. If it ends later, the request may have been counted, as
// after any error but a RefusedError.
func (l *Limiter) AllowN(ctx context.Context, id string, limit Limit, n int) (d Decision, err error) {
	if l.config.observer != nil {
		began := driver.Now()
		defer func() { l.report(ctx, id, began, err) }()
	}
	return l.allow(ctx, id, limit, n)
}

func (l *Limiter) allow(ctx context.Context, id string, limit Limit, n int) (Decision, error) {
	r, err := l.request(id, limit, n, 0)
	if err != nil {
		return Decision{}, l.failed(id, err)
	}
	if err := l.decide(ctx, r); err != nil {
		return Decision{}, l.failed(id, err)
	}
	decision, ok := r.decision(), r.ok
	r.recycle()
	if !ok {
		return decision, &RefusedError{l.key, id, limit, decision}
	}
	return decision, nil
}

// report reports the end of a call to the Observer.
func (l *Limiter) report(ctx context.Context, id string, began driver.Instant, err error) {
	l.config.observer(ctx, pglock.Event{
		Type: pglock.EventRecorded, Use: pglock.Use{Kind: pglock.UseRate, Key: l.key}, ID: id,
		Took: driver.Now().Sub(began), Err: err,
	})
}

// request is one call that asks for a decision.
type request struct {
	key      string
	burst    int
	shape    shape
	amount   int64
	patience int64

	answered chan struct{} // closed when the fields below have been set
	ok       bool
	until    int64 // the key's time after the request, or what it would be
	before   int64 // the key's time if the request is not let through
	at       int64
	err      error
}

func (l *Limiter) request(id string, limit Limit, n int, patience time.Duration) (*request, error) {
	shape, err := limit.shape()
	key := stateKey(l.name, id)
	if err == nil {
		err = check(key)
	}
	switch {
	case err != nil:
		return nil, err
	case n < 1:
		return nil, fmt.Errorf("%d were asked for, want at least one", n)
	case n > limit.burst():
		return nil, fmt.Errorf("%d were asked for, which is more than the burst: the limit is %v", n, limit)
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
	d := Decision{Burst: r.burst, At: time.Unix(0, r.at)}
	now := r.until
	if !r.ok {
		now = r.before
		d.RetryAfter = time.Duration(max(0, r.before+r.price()-r.shape.tolerance-r.at))
	}
	d.Remaining = int(max(0, (r.at+r.shape.tolerance-now)/r.shape.interval))
	d.ResetAfter = time.Duration(max(0, now-r.at))
	return d
}

func (l *Limiter) failed(id string, err error) error {
	return fmt.Errorf("pglock/ratelimit: %s: %w", shorttext.Quote(stateKey(l.name, id)), shorttext.Error(err))
}
