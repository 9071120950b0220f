package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Reservation is permission for something to happen after a delay.
type Reservation struct {
	limiter *Limiter
	id      string
	ready   time.Time
	outage  error

	mu      sync.Mutex
	request *request // nil if OnOutage made the decision, and after Cancel
}

// Reserve is [Limiter.ReserveN] with an n of 1.
func (l *Limiter) Reserve(ctx context.Context, id string, limit Limit, opts ...pglock.LockOption) (*Reservation, error) {
	return l.ReserveN(ctx, id, limit, 1, opts...)
}

// ReserveN reserves n at the earliest time at which the limit has room for them, in the order of the calls;
// [Reservation.Delay] returns how long to wait until then. If the delay would be longer than [pglock.MaxWait], or outlast
// ctx, the error is a *[RefusedError], and nothing is counted; without either the delay may be up to 45 days. Other
// LockOptions are errors. During an outage, [OnOutage] with Permit makes the delay zero.
func (l *Limiter) ReserveN(ctx context.Context, id string, limit Limit, n int, opts ...pglock.LockOption) (r *Reservation, err error) {
	if l.observed() {
		began := driver.Now()
		defer func() { l.report(ctx, id, began, err) }()
	}
	return l.reserve(ctx, id, limit, n, opts)
}

func (l *Limiter) reserve(ctx context.Context, id string, limit Limit, n int, opts []pglock.LockOption) (*Reservation, error) {
	patience, err := patience(ctx, opts)
	if err != nil {
		return nil, l.failed(id, err)
	}
	r, err := l.request(id, limit, n, patience)
	if err != nil {
		return nil, l.failed(id, err)
	}
	if err := l.decide(ctx, r); err != nil {
		d, err := l.outage(id, limit, err)
		if err != nil {
			return nil, err
		}
		return &Reservation{limiter: l, id: id, outage: d.Outage}, nil
	}
	delay := time.Duration(max(0, r.until-r.shape.tolerance-r.at))
	if !r.ok {
		return nil, &RefusedError{l.key, id, limit, r.decision()}
	}
	return &Reservation{limiter: l, id: id, request: r, ready: time.Now().Add(delay)}, nil
}

// patience returns how long a call may be put off.
func patience(ctx context.Context, opts []pglock.LockOption) (time.Duration, error) {
	o, err := hooks.ReadLockOptions(opts)
	patience := maxSpan
	if o.Bounded {
		patience = min(patience, max(1, o.MaxWait))
	}
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, max(1, time.Until(deadline)))
	}
	if o.MaxWait, o.Bounded = 0, false; err == nil && o != (hooks.LockSettings{}) {
		err = errors.New("the only option of a wait for a rate limit is MaxWait")
	}
	return patience, err
}

// Delay returns how long to wait before it may happen, or zero if it may happen now.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.ready)) }

// Outage returns why the server could not be asked, if [OnOutage] made the decision, and otherwise nil.
func (r *Reservation) Outage() error { return r.outage }

// Cancel gives the reservation back, because what was reserved will not happen, and reports whether that was possible.
// It is possible if the key has not been used since. Otherwise the reservation stays counted, since later callers
// already have their times. Only Cancel moves a key's time back, so a call at the same moment may still be refused as
// if nothing had been given back.
//
// Do not cancel something that has happened. A second call does nothing. The server has [Timeout] to answer.
func (r *Reservation) Cancel(ctx context.Context) (returned bool, err error) {
	r.mu.Lock()
	taken := r.request
	r.request = nil // even if it fails: a second return would give back another caller's
	r.mu.Unlock()
	if taken == nil {
		return false, nil
	}
	bounded, cancel := context.WithTimeout(ctx, r.limiter.config.timeout)
	defer cancel()
	returned, err = r.limiter.store.Return(bounded, taken.key, taken.until, taken.price())
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = r.limiter.noAnswer(err)
	}
	if err != nil {
		return false, r.limiter.failed(r.id, fmt.Errorf("cancel a reservation: %w", err))
	}
	return returned, nil
}

// Wait is [Limiter.WaitN] with an n of 1.
func (l *Limiter) Wait(ctx context.Context, id string, limit Limit, opts ...pglock.LockOption) error {
	return l.WaitN(ctx, id, limit, 1, opts...)
}

// WaitN waits until n may happen, in the order of the calls. If the wait would be longer than [pglock.MaxWait], or outlast
// ctx, it returns at once, with a *[RefusedError]. If ctx ends during the wait, the reservation is given back if possible,
// see [Reservation.Cancel], and the error is the context's.
func (l *Limiter) WaitN(ctx context.Context, id string, limit Limit, n int, opts ...pglock.LockOption) (err error) {
	if l.observed() {
		began := driver.Now()
		defer func() { l.report(ctx, id, began, err) }()
	}
	r, err := l.reserve(ctx, id, limit, n, opts)
	if err != nil {
		return err
	}
	delay := r.Delay()
	if delay == 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
	}
	_, err = r.Cancel(context.WithoutCancel(ctx))
	return errors.Join(l.failed(id, context.Cause(ctx)), err)
}
