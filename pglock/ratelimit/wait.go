package ratelimit

import (
	"context"
	"errors"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Wait is [Limiter.WaitN] with an n of 1.
func (l *Limiter) Wait(ctx context.Context, id string, limit Limit, opts ...pglock.LockOption) error {
	return l.WaitN(ctx, id, limit, 1, opts...)
}

// WaitN waits until n may happen, in the order of the calls. If the wait would outlast [pglock.MaxWait] or ctx, it
// returns at once, with a *[RefusedError], and nothing is counted. Without either it may last up to 45 days. Other
// LockOptions are errors. If ctx ends during the wait, the error is the context's. What was counted is given back if
// no other call has asked for the id since.
func (l *Limiter) WaitN(ctx context.Context, id string, limit Limit, n int, opts ...pglock.LockOption) (err error) {
	if l.config.observer != nil {
		began := driver.Now()
		defer func() { l.report(ctx, id, began, err) }()
	}
	patience, err := patience(ctx, opts)
	if err != nil {
		return l.failed(id, err)
	}
	r, err := l.request(id, limit, n, patience)
	if err != nil {
		return l.failed(id, err)
	}
	if err := l.decide(ctx, r); err != nil {
		return l.failed(id, err)
	}
	if !r.ok {
		return &RefusedError{l.key, id, limit, r.decision()}
	}
	if timing.Sleep(ctx, time.Duration(r.until-r.shape.tolerance-r.at)) {
		return nil
	}
	return l.failed(id, errors.Join(context.Cause(ctx), l.giveBack(ctx, r)))
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
	if o.MaxWait, o.Bounded = 0, false; err == nil && o != (hooks.Settings{}) {
		err = errors.New("the only option of a wait for a rate limit is MaxWait")
	}
	return patience, err
}

// giveBack gives back what r was granted, if the key has not been used since; later callers already have their times.
func (l *Limiter) giveBack(ctx context.Context, r *request) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.config.timeout)
	defer cancel()
	_, err := l.store.Return(ctx, r.key, r.until, r.price())
	if err != nil && ctx.Err() != nil {
		err = l.noAnswer(err)
	}
	return err
}
