package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrTooLong: the wait would be longer than the context lasts, so nothing was reserved.
var ErrTooLong = errors.New("the wait would be longer than the context lasts")

// Reservation is something that may happen, after a delay.
type Reservation struct {
	limiter *Limiter
	ready   time.Time
	outage  error

	mu      sync.Mutex
	request *request // nil where OnOutage has decided, and once it was cancelled
}

// Reserve is [Limiter.ReserveN] for one.
func (l *Limiter) Reserve(ctx context.Context, key string, limit Limit) (*Reservation, error) {
	return l.ReserveN(ctx, key, limit, 1)
}

// ReserveN counts n as happening as soon as the limit has room for them, which [Reservation.Delay] says, in the order of
// the calls. A delay that is longer than ctx lasts is an error that matches [ErrTooLong], and nothing is counted; one that
// has no deadline may be up to 45 days. With [OnOutage] and Permit there is no delay during an outage, and with Refuse an
// error.
func (l *Limiter) ReserveN(ctx context.Context, key string, limit Limit, n int) (*Reservation, error) {
	patience := maxSpan
	if deadline, ok := ctx.Deadline(); ok {
		patience = max(1, time.Until(deadline))
	}
	r, err := newRequest(key, limit, n, patience)
	if err != nil {
		return nil, refused(key, err)
	}
	if err := l.decide(ctx, r); err != nil {
		d, err := l.outage(key, err)
		switch {
		case err != nil:
			return nil, err
		case !d.OK:
			return nil, d.Outage
		}
		return &Reservation{limiter: l, outage: d.Outage}, nil
	}
	delay := time.Duration(max(0, r.until-r.shape.tolerance-r.at))
	if !r.ok {
		wait := r.decision().RetryAfter
		return nil, refused(key, fmt.Errorf("%w: %v, and the limit is %v", ErrTooLong, wait, limit))
	}
	return &Reservation{limiter: l, request: r, ready: time.Now().Add(delay)}, nil
}

// Delay is how long to wait before it may happen; zero when it may happen now.
func (r *Reservation) Delay() time.Duration { return max(0, time.Until(r.ready)) }

// Outage is why the server could not be asked, where [OnOutage] has decided.
func (r *Reservation) Outage() error { return r.outage }

// Cancel says that it will not happen, and reports whether what was reserved has been given back. It is given back if
// nothing was taken of the key since. Otherwise it stays counted, since those who have come later have their times
// already. It is the only thing that moves a key's time back, so a call that asks at the same moment may still be refused
// as if it had not been given back.
//
// Do not cancel what has happened. Calling it again does nothing.
func (r *Reservation) Cancel(ctx context.Context) (returned bool, err error) {
	r.mu.Lock()
	taken := r.request
	r.request = nil // whatever becomes of it: to return it twice would return what is another's
	r.mu.Unlock()
	if taken == nil {
		return false, nil
	}
	returned, err = r.limiter.store.ReturnRate(ctx, taken.key, taken.until, taken.price())
	if err != nil {
		return false, refused(taken.key, fmt.Errorf("cancel a reservation: %w", err))
	}
	return returned, nil
}

// Wait is [Limiter.WaitN] for one.
func (l *Limiter) Wait(ctx context.Context, key string, limit Limit) error {
	return l.WaitN(ctx, key, limit, 1)
}

// WaitN waits until n may happen, in the order of the calls. It returns an error that matches [ErrTooLong] at once when
// that would be longer than ctx lasts. When ctx ends during the wait, what was reserved is given back if that is possible,
// see [Reservation.Cancel], and the error is the context's.
func (l *Limiter) WaitN(ctx context.Context, key string, limit Limit, n int) error {
	r, err := l.ReserveN(ctx, key, limit, n)
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
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.config.timeout)
	defer cancel()
	_, err = r.Cancel(bounded)
	return errors.Join(refused(key, context.Cause(ctx)), err)
}
