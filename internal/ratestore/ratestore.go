// Package ratestore is what package ratelimit asks of a server: to keep the state of rate limits, which is for each key the
// time until which all permitted calls are accounted for (GCRA's theoretical arrival time). Times are nanoseconds, on one
// clock of the server's.
package ratestore

import "context"

// Store keeps the state. All methods may be called from many goroutines at once.
type Store interface {
	// Take decides runs, and returns a grant for each. Runs of one key must be next to each other; they are decided in
	// their order, at one instant. After an error, here or in a grant, it is not known what was taken. The error matches
	// driver.ErrUnavailable if the server could not be reached.
	Take(ctx context.Context, runs []Run) ([]Grant, error)

	// Return moves the key's time back by price if that time is still until, so that nothing has been taken since. It
	// reports whether it moved the time.
	Return(ctx context.Context, key string, until, price int64) (bool, error)
}

// Run is a run of Count requests of one key, each for Amount, in the order of their arrival.
type Run struct {
	Key string
	// Interval is how far an amount of one moves the key's time, and Tolerance how far that time may be ahead of the clock.
	Interval, Tolerance int64
	Amount, Count       int64
	// Patience is how much further ahead it may be: how long each request may be put off. A request without patience is
	// refused if, in the same call, an earlier one of its key without patience was refused.
	Patience int64
}

// Grant is the outcome of a [Run].
type Grant struct {
	Granted int64 // how many requests were let through: the first ones
	Start   int64 // the key's time before them, or the clock if that is later
	At      int64 // the clock when it was decided
	// Err says that this run was not decided; it may have taken something.
	Err error
}

// NewLimiter is ratelimit.New with a Store: it takes a pglock.Key and a []ratelimit.Option, and returns a
// *ratelimit.Limiter. Package ratelimit sets it.
var NewLimiter func(store Store, key, opts any) (limiter any, err error)
