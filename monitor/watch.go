package monitor

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
)

// Watcher takes snapshots of one server, and remembers names from one to the next: a lock keeps the name that was
// seen in a query, such as pglock.key('invoice:42'), when its holder runs other statements. For keys that stay
// locked, the name registry is asked again only after 15 seconds. Its methods may be called from many goroutines at
// once.
type Watcher struct {
	db      pglock.DB
	options []Option
}

// NewWatcher returns a Watcher that takes snapshots as [Take] does with these options.
func NewWatcher(db pglock.DB, opts ...Option) *Watcher {
	memory := newMemory()
	remember := func(o *config) error {
		o.memory = memory
		return nil
	}
	return &Watcher{db, append(slices.Clone(opts), remember)}
}

// Take takes a snapshot, with further options.
func (w *Watcher) Take(ctx context.Context, opts ...Option) (*Snapshot, error) {
	return Take(ctx, w.db, slices.Concat(w.options, opts)...)
}

// answerTimeout bounds a snapshot of Watch. It is several times statementTimeout.
const answerTimeout = 10 * time.Second

// Watch takes a snapshot at once and then one every interval, until ctx ends or the consumer stops.
//
// If a snapshot fails or takes more than ten seconds, Watch yields an error with a nil snapshot, and continues. With a
// pool the next snapshot uses a new connection if the old one broke; a single connection stays broken. The end of ctx
// is not yielded. If the consumer takes longer than an interval, the next snapshot follows at once; those in between
// are skipped, not queued. If the interval is not positive, Watch yields one error and stops. Watch starts no
// goroutine.
func (w *Watcher) Watch(ctx context.Context, every time.Duration) iter.Seq2[*Snapshot, error] {
	return func(yield func(*Snapshot, error) bool) {
		if every <= 0 {
			yield(nil, fmt.Errorf("monitor: cannot watch every %v: the interval must be positive", every))
			return
		}
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for ctx.Err() == nil {
			snapshot, err := w.takeInTime(ctx)
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

func (w *Watcher) takeInTime(ctx context.Context) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	snapshot, err := w.Take(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("%w (no answer within %v)", err, answerTimeout)
	}
	return snapshot, err
}
