package driver

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// TickRecorder is implemented by backends that can record which runs of scheduled jobs there have been, for package
// schedule. Records outlive locks. They are read and written on a connection that is not a lock session, so that a
// commit that hangs costs no lock.
type TickRecorder interface {
	// Tick records a step of a run, unless r.Step is TickLook, and returns the state before. A run that is done, or not
	// due yet, stays as it is. After an error the step may or may not have been recorded. Tick does not wait without a
	// bound for a server that does not answer: the error then matches [ErrUnavailable], and no deadline but that of ctx.
	// A step that was recorded, but might not survive a failover, is such an error too.
	Tick(ctx context.Context, r TickRequest) (TickState, error)
}

// TxTickRecorder is implemented by a [TickRecorder] that can record a step in a transaction, with which it commits.
type TxTickRecorder interface {
	TickTx(ctx context.Context, tx pgx.Tx, r TickRequest) (TickState, error)
}

// TickStep is what a [TickRequest] asks for.
type TickStep string

// The steps of a run.
const (
	TickLook    TickStep = "look"    // nothing is recorded
	TickAttempt TickStep = "attempt" // it begins, and is repeated unless it is recorded as done
	TickStart   TickStep = "start"   // it begins, and is not repeated, whatever happens to it
	TickDone    TickStep = "done"    // it has succeeded, and is not repeated
	TickFinish  TickStep = "finish"  // it has succeeded, after TickStart
)

// TickRequest is about one run of a job, which is identified by when it was due: an instant in UTC, in whole microseconds.
type TickRequest struct {
	Job  string
	Due  time.Time
	Step TickStep
	// Keep is how long records of this job are kept; older ones may be deleted when a step is recorded. The latest due time
	// of a deleted record is kept for ever.
	Keep time.Duration
	// Newest is how many due times to return: the newest before Due whose runs are done.
	Newest int
}

// TickState is what was known of a run before the request.
type TickState struct {
	// At is the clock of the server.
	At time.Time
	// Done says that the run must not be repeated: that was recorded, or it is not newer than Pruned.
	Done bool
	// Pruned is the latest due time of a deleted record of the job; zero if none was deleted.
	Pruned time.Time
	// Dues are the newest due times that were asked for, newest first.
	Dues []time.Time
}
