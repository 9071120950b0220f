package pglock

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Tick reads the state of a run of a scheduled job, or records a step of the run. Use package schedule, which is built
// on it, instead. Tick needs no lock, and takes none. Backends that cannot record runs return [ErrUnsupported];
// PostgreSQL needs schema pglock ([ErrSchemaMissing]).
func (l *Locker) Tick(ctx context.Context, r driver.TickRequest) (driver.TickState, error) {
	recorder, ok := l.backend.(driver.TickRecorder)
	err := l.checkOpen()
	if err == nil && !ok {
		err = fmt.Errorf("%w by this backend", ErrUnsupported)
	}
	if err != nil {
		return driver.TickState{}, err
	}
	return recorder.Tick(ctx, r)
}

// TickTx is [Locker.Tick] in a transaction of the caller's, on the database of the Locker.
func (l *Locker) TickTx(ctx context.Context, tx pgx.Tx, r driver.TickRequest) (driver.TickState, error) {
	recorder, ok := l.backend.(driver.TxTickRecorder)
	if !ok {
		return driver.TickState{}, fmt.Errorf("%w by this backend", ErrUnsupported)
	}
	return recorder.TickTx(ctx, tx, r)
}

// TickedInfo is what an [Observer] learns of a run of a scheduled job that has ended, or was found to be done.
type TickedInfo struct {
	// Job is the job's name, and Due when the run was due.
	Job string
	Due time.Time
	// Ran says whether the job's function was run.
	Ran bool
	// Took is how long it ran.
	Took time.Duration
	// Err is what Run returns.
	Err error
}

// Ticked reports a run to the Locker's [Observer]. It is for package schedule.
func (l *Locker) Ticked(ctx context.Context, t TickedInfo) {
	if o := l.config.observer; o != nil && o.Ticked != nil {
		o.Ticked(ctx, t)
	}
}
