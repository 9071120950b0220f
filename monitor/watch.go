package monitor

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// answerTimeout is how long Watch waits for one snapshot before it says that the server does not answer. It leaves room
// for statementTimeout several times.
const answerTimeout = 10 * time.Second

// Watch takes a snapshot at once and then one every interval, until ctx ends or the consumer stops.
//
// A snapshot that fails, or that has not come after ten seconds, is yielded as an error with a nil snapshot, and
// Watch continues: with a pool the next one uses a new connection when the old one broke. (A single connection stays
// broken.) The end of ctx is not yielded. A consumer that takes longer than an interval gets the next snapshot right
// after; the ones in between are skipped, not queued. An interval that is not positive is an error, yielded once.
//
// The options are those of Take. Each iteration over the result watches anew. Watch starts no goroutine.
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
