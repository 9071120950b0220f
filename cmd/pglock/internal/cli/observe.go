package cli

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// observer takes snapshots, and keeps a journal of the events in them. Its methods may be called concurrently.
type observer struct {
	pool    *pgxpool.Pool
	watcher *monitor.Watcher

	// noting is held while a snapshot is noted, which asks the server, and records.
	noting   sync.Mutex
	journal  *journal.Journal
	recorder *recorder // nil if nothing is recorded

	// mu is held only for a moment: what is known can be read while the server does not answer.
	mu     sync.Mutex
	events []journal.Event // the latest maxEvents
	latest *monitor.Snapshot
	noted  time.Time // when the latest was
	lost   error     // why there has been no snapshot since
}

// maxEvents is how many events are kept.
const maxEvents = 5000

// newObserver returns an observer of a server, which flags names in the commands that it suggests.
func newObserver(pool *pgxpool.Pool, flags string, options []monitor.Option) *observer {
	o := &observer{pool: pool, watcher: monitor.NewWatcher(pool, options...), journal: journal.New()}
	o.journal.End = func(h monitor.Action) string { return view.EndCommand(h, flags) }
	return o
}

// answerTimeout bounds what is asked of a server beside snapshots.
const answerTimeout = 10 * time.Second

// take takes a snapshot and notes the events since the last one. A failed snapshot leaves a gap.
func (o *observer) take(ctx context.Context) (*monitor.Snapshot, error) {
	s, err := o.watcher.Take(ctx)
	s, _, err = o.note(ctx, s, err)
	return s, err
}

// note adds a snapshot, or the error of the attempt, to the journal, and returns the new events.
func (o *observer) note(ctx context.Context, s *monitor.Snapshot, err error) (*monitor.Snapshot, []journal.Event, error) {
	o.noting.Lock()
	defer o.noting.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			o.journal.Missed(err)
			o.recorder.missed(err)
			o.mu.Lock()
			defer o.mu.Unlock()
			o.lost = err
		}
		return nil, nil, err
	}
	ended := o.ended(ctx, s)
	o.recorder.add(s, ended)
	events := o.journal.See(s, ended...)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.latest, o.noted, o.lost = s, time.Now(), nil
	o.events = append(o.events, events...)
	o.events = slices.Clone(o.events[max(0, len(o.events)-maxEvents):])
	return s, events, nil
}

// ended returns which sessions have ended, or none if the server does not answer: the snapshot is good, and only the ends of
// sessions are missing from the events.
func (o *observer) ended(ctx context.Context, s *monitor.Snapshot) []int32 {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	ended, err := journal.Ended(ctx, o.pool, o.journal.Gone(s))
	if err != nil {
		return nil
	}
	return ended
}

// connect connects if there is no connection yet. How long that may take is not part of the time for an answer: pgx
// gives each address of the server connect_timeout, and the first ones may be silent.
func (o *observer) connect(ctx context.Context) error {
	if o.pool.Stat().TotalConns() > 0 {
		return nil
	}
	conn, err := o.pool.Acquire(ctx)
	if err == nil {
		conn.Release()
	}
	return err
}

// watch takes a snapshot every interval until ctx ends or the consumer stops, as [monitor.Watcher.Watch] does.
func (o *observer) watch(ctx context.Context, every time.Duration, each func(*monitor.Snapshot, []journal.Event, error) error) error {
	if err := o.connect(ctx); err != nil && ctx.Err() == nil {
		_, _, err := o.note(ctx, nil, err)
		if err := each(nil, nil, err); err != nil {
			return err
		}
	}
	for s, err := range o.watcher.Watch(ctx, every) {
		s, events, err := o.note(ctx, s, err)
		if err := each(s, events, err); err != nil {
			return err
		}
	}
	return nil
}
