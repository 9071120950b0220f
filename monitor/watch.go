package monitor

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// answerTimeout bounds a snapshot of Watch. It is several times statementTimeout.
const answerTimeout = 10 * time.Second

// Watch takes a snapshot at once and then one every interval, until ctx ends or the consumer stops.
//
// If a snapshot fails or takes more than ten seconds, Watch yields an error with a nil snapshot, and continues. With a
// pool the next snapshot uses a new connection if the old one broke; a single connection stays broken. The end of ctx is
// not yielded. If the consumer takes longer than an interval, the next snapshot follows at once; those in between are
// skipped, not queued. If the interval is not positive, Watch yields one error and stops.
//
// The options are those of Take. Each iteration over the result starts again. Watch starts no goroutine.
func Watch(ctx context.Context, db DBTX, every time.Duration, opts ...Option) iter.Seq2[*Snapshot, error] {
	return func(yield func(*Snapshot, error) bool) {
		if every <= 0 {
			yield(nil, fmt.Errorf("monitor: cannot watch every %v: the interval must be positive", every))
			return
		}
		opts := append(slices.Clone(opts), ReuseCopy(), RememberNames())
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for ctx.Err() == nil {
			snapshot, err := takeInTime(ctx, db, opts)
			if ctx.Err() != nil || !yield(snapshot, err) {
				return
			}
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	}
}

func takeInTime(ctx context.Context, db DBTX, opts []Option) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	snapshot, err := Take(ctx, db, opts...)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w (no answer within %v)", err, answerTimeout)
	}
	return snapshot, err
}
