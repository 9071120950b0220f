// Package runstore is what package schedule asks of a server: to keep records of the runs of jobs. Records outlive locks.
package runstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Store records which runs there have been. Backends that can do it implement Store beside [driver.Backend]. All methods
// may be called from many goroutines at once.
type Store interface {
	// RecordRun records a step of a run, unless r.Step is StepLook, and returns the state before. A run that is done, or
	// not due yet, stays as it is. After an error the step may or may not have been recorded. Without
	// a transaction of the application's RecordRun does not wait without a bound for a server that does not answer: the
	// error then matches [driver.ErrUnavailable], and no deadline but that of ctx. A step that was recorded, but might
	// not survive a failover, is such an error too.
	RecordRun(ctx context.Context, r Request) (State, error)
}

// Step is what a [Request] asks for.
type Step string

// The steps of a run.
const (
	StepLook    Step = "look"    // nothing is recorded
	StepAttempt Step = "attempt" // it begins, and is repeated unless it is recorded as done
	StepStart   Step = "start"   // it begins, and is not repeated, whatever happens to it
	StepDone    Step = "done"    // it has succeeded, and is not repeated
)

// Request is about one run of a job, which is identified by when it was due: an instant in UTC, in whole microseconds.
type Request struct {
	// Tx is a transaction of the application's, with which the record commits; nil is one of its own. It is guarded by a lock of
	// the store's backend, so backends that guard none get none.
	Tx   pgx.Tx
	Job  string
	Due  time.Time
	Step Step
	// Keep is how long records of this job are kept; older ones may be deleted when a step is recorded. The latest due time
	// of a deleted record is kept for ever.
	Keep time.Duration
	// Newest is how many due times to return: the newest before Due whose runs are done.
	Newest int
}

// State is what was known of a run before the request.
type State struct {
	// At is the clock of the server.
	At time.Time
	// Done says that the run must not be repeated: that was recorded, or it is not newer than a deleted record of the job.
	Done bool
	// Dues are the newest due times that were asked for, newest first.
	Dues []time.Time
}

// Record records a step in the store of a *pglock.Locker. The error matches [driver.ErrUnsupported] if the Locker's backend
// cannot do that, and [driver.ErrClosed] if the Locker is closed.
func Record(ctx context.Context, locker any, r Request) (State, error) {
	b, err := hooks.Backend(locker)
	if err != nil {
		return State{}, err
	}
	store, ok := b.(Store)
	if !ok {
		return State{}, fmt.Errorf("%w by this backend", driver.ErrUnsupported)
	}
	return store.RecordRun(ctx, r)
}

// Await takes a step once the server's clock has reached the due time, and reports whether the run had been done.
//
// The server's clock may be set, and after a failover it is another one, so Await asks again every minute.
func Await(ctx context.Context, locker any, r Request) (done bool, err error) {
	for {
		state, err := Record(ctx, locker, r)
		if err != nil || state.Done || !r.Due.After(state.At) {
			return state.Done, err
		}
		if !timing.Sleep(ctx, min(r.Due.Sub(state.At), lookEvery)) {
			return false, context.Cause(ctx)
		}
	}
}

const lookEvery = time.Minute
