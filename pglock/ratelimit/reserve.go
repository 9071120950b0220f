package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrTooLong: the wait would outlast the context, so nothing was reserved.
var ErrTooLong = errors.New("the wait would outlast the context")

// Reservation is permission for something to happen after a delay.
type Reservation struct {
	limiter *Limiter
	ready   time.Time
	outage  error

	mu      sync.Mutex
	request *request // nil if OnOutage made the decision, and after Cancel
}

// Reserve is [Limiter.ReserveN] with an n of 1.
func (l *Limiter) Reserve(ctx context.Context, key string, limit Limit) (*Reservation, error) {
	return l.ReserveN(ctx, key, limit, 1)
}

// ReserveN reserves n at the earliest time at which the limit has room for them, in the order of the calls;
// [Reservation.Delay] returns how long to wait until then. If the delay would outlast ctx, the error matches
// [ErrTooLong], and nothing is counted; without a deadline the delay may be up to 45 days. During an outage, [OnOutage]
// with Permit makes the delay zero, and with Refuse it makes ReserveN return an error.
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
		return false, refused(taken.key, fmt.Errorf("cancel a reservation: %w", err))
	}
	return returned, nil
}

// Wait is [Limiter.WaitN] with an n of 1.
func (l *Limiter) Wait(ctx context.Context, key string, limit Limit) error {
	return l.WaitN(ctx, key, limit, 1)
}

// WaitN waits until n may happen, in the order of the calls. If the wait would outlast ctx it returns at once, with an
// error that matches [ErrTooLong]. If ctx ends during the wait, the reservation is given back if possible, see
// [Reservation.Cancel], and the error is the context's.
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
	_, err = r.Cancel(context.WithoutCancel(ctx))
	return errors.Join(refused(key, context.Cause(ctx)), err)
}
