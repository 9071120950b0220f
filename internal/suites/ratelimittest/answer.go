package ratelimittest

import (
	"context"
	"errors"

	"github.com/pglock-toolkit/pglock/internal/ratestore"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

// New returns a Limiter on a store.
func New(store ratestore.Store, key pglock.Key, opts ...ratelimit.Option) (*ratelimit.Limiter, error) {
	l, err := ratestore.NewLimiter(store, key, opts)
	if err != nil {
		return nil, err
	}
	return l.(*ratelimit.Limiter), nil
}

// Answer is a decision, yes or no.
type Answer struct {
	ratelimit.Decision
	OK bool
}

// Allow asks for one.
func Allow(ctx context.Context, l *ratelimit.Limiter, id string, limit ratelimit.Limit) (Answer, error) {
	return AllowN(ctx, l, id, limit, 1)
}

// AllowN asks for n. The answer no is no error.
func AllowN(ctx context.Context, l *ratelimit.Limiter, id string, limit ratelimit.Limit, n int) (Answer, error) {
	d, err := l.AllowN(ctx, id, limit, n)
	refused, no := errors.AsType[*ratelimit.RefusedError](err)
	if !no {
		return Answer{d, err == nil}, err
	}
	if !errors.Is(err, pglock.ErrNotAcquired) || refused.Decision != d || refused.ID != id || refused.Limit != limit {
		return Answer{}, errors.Join(errors.New("a refusal that says something else"), err)
	}
	return Answer{d, false}, nil
}
