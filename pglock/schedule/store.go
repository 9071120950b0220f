package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/internal/recorder"
)

// Store records which runs there have been. Records outlive locks. On PostgreSQL they are in schema pglock; other
// backends have a store if they implement this interface beside that of package driver. All methods may be called from
// many goroutines at once.
type Store interface {
	// RecordRun records a step of a run, unless r.Step is StepLook, and returns the state before. A run that is done, or
	// not due yet, stays as it is. After an error the step may or may not have been recorded. RecordRun does not wait
	// without a bound for a server that does not answer: the error then matches [pglock.ErrUnavailable], and no deadline
	// but that of ctx. A step that was recorded, but might not survive a failover, is such an error too.
	RecordRun(ctx context.Context, r RunRequest) (RunState, error)
}

// TxStore is a [Store] on the database of the application's transactions. Only on these [Job.RunTx] works.
type TxStore interface {
	Store
	// RecordRunIn records a step in tx, with which the record commits.
	RecordRunIn(ctx context.Context, tx pgx.Tx, r RunRequest) (RunState, error)
}

// Step is what a [RunRequest] asks for.
type Step string

// The steps of a run.
const (
	StepLook    Step = "look"    // nothing is recorded
	StepAttempt Step = "attempt" // it begins, and is repeated unless it is recorded as done
	StepStart   Step = "start"   // it begins, and is not repeated, whatever happens to it
	StepDone    Step = "done"    // it has succeeded, and is not repeated
	StepFinish  Step = "finish"  // it has succeeded, after StepStart
)

// RunRequest is about one run of a job, which is identified by when it was due: an instant in UTC, in whole microseconds.
type RunRequest struct {
	Job  string
	Due  time.Time
	Step Step
	// Keep is how long records of this job are kept; older ones may be deleted when a step is recorded. The latest due time
	// of a deleted record is kept for ever.
	Keep time.Duration
	// Newest is how many due times to return: the newest before Due whose runs are done.
	Newest int
}

// RunState is what was known of a run before the request.
type RunState struct {
	// At is the clock of the server.
	At time.Time
	// Done says that the run must not be repeated: that was recorded, or it is not newer than Pruned.
	Done bool
	// Pruned is the latest due time of a deleted record of the job; zero if none was deleted.
	Pruned time.Time
	// Dues are the newest due times that were asked for, newest first.
	Dues []time.Time
}

// StoreOf returns the store of a Locker. It is for programs that record runs themselves, as the command pglock does;
// others use a [Job]. If the Locker's backend cannot record runs, the error of each call matches [pglock.ErrUnsupported];
// if the Locker is closed, [pglock.ErrClosed].
func StoreOf(l *pglock.Locker) Store { return store{l} }

// store asks the Locker for its backend each time, since the Locker may be closed.
type store struct{ locker *pglock.Locker }

// RecordRun implements [Store].
func (s store) RecordRun(ctx context.Context, r RunRequest) (RunState, error) {
	backend, err := hooks.Backend(s.locker)
	if err != nil {
		return RunState{}, err
	}
	switch b := backend.(type) {
	case withRuns:
		return postgres{b.Runs()}.record(ctx, r)
	case Store:
		return b.RecordRun(ctx, r)
	}
	return RunState{}, errNoStore
}

// recordIn records a step of a run in a transaction, with which the record commits.
func (s store) recordIn(ctx context.Context, tx pgx.Tx, r RunRequest) (RunState, error) {
	backend, err := hooks.Backend(s.locker)
	if err != nil {
		return RunState{}, err
	}
	switch b := backend.(type) {
	case withRuns:
		return postgres{b.Runs()}.recordIn(ctx, tx, r)
	case TxStore:
		return b.RecordRunIn(ctx, tx, r)
	}
	return RunState{}, errNoStore
}

var errNoStore = fmt.Errorf("%w by this backend", pglock.ErrUnsupported)

// withRuns is implemented by the PostgreSQL backend.
type withRuns interface{ Runs() *recorder.Runs }
