package exporter

import (
	"context"
	"log/slog"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// answerTimeout bounds a snapshot. Prometheus allows a scrape ten seconds by default.
const answerTimeout = 8 * time.Second

// state is what a scrape shows.
type state struct {
	// snapshot is nil if the server has not answered.
	snapshot *monitor.Snapshot
	err      error
	// duration is how long the attempt took.
	duration time.Duration
	// snapshots and failures count the attempts since the exporter started.
	snapshots, failures int
}

// source takes snapshots, one at a time and at most one per interval.
type source struct {
	ctx      context.Context // of the exporter, since a snapshot can outlive its scrape
	take     func(context.Context) (*monitor.Snapshot, error)
	interval time.Duration
	logger   *slog.Logger
	waits    *waitCounters // nil without sampling

	mu     chan struct{} // guards the fields below
	begun  time.Time     // time of the last attempt
	last   state
	unread string // why the last snapshot has no locks in rows, if they could not be read
}

func newSource(ctx context.Context, o Options) *source {
	s := &source{ctx: ctx, take: o.Take, interval: o.MinInterval, logger: o.Logger, mu: make(chan struct{}, 1)}
	s.mu <- struct{}{}
	if o.Sample > 0 {
		s.waits = newWaitCounters(o.Sample)
		go s.sample(o.Sample)
	}
	return s
}

// sample takes a snapshot in each period, unless a scrape has just taken one.
func (s *source) sample(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for s.ctx.Err() == nil {
		_, _ = s.notOlder(s.ctx, every/2) // the error is that of ctx
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
		}
	}
}

// state returns a state no older than the interval, or taken since the call. The error is that of
// ctx.
func (s *source) state(ctx context.Context) (state, error) { return s.notOlder(ctx, s.interval) }

func (s *source) notOlder(ctx context.Context, age time.Duration) (state, error) {
	called := time.Now()
	select {
	case <-ctx.Done():
		return state{}, context.Cause(ctx)
	case <-s.mu:
	}
	defer func() { s.mu <- struct{}{} }()
	if fresh := !s.begun.IsZero() && (!s.begun.Before(called) || time.Since(s.begun) < age); !fresh {
		s.takeSnapshot()
	}
	return s.last, nil
}

func (s *source) takeSnapshot() {
	ctx, cancel := context.WithTimeout(s.ctx, answerTimeout)
	defer cancel()
	s.begun = time.Now()
	snapshot, err := s.take(ctx)
	next := state{snapshot: snapshot, err: err, duration: time.Since(s.begun),
		snapshots: s.last.snapshots + 1, failures: s.last.failures}
	if err != nil {
		next.snapshot = nil
		next.failures++
	} else {
		s.waits.note(snapshot)
		s.logRows(rowsUnread(snapshot))
	}
	s.logOutage(s.last.err, err)
	s.last = next
}

// logRows logs once that locks in rows cannot be read, and that they can again.
func (s *source) logRows(unread string) {
	switch {
	case unread != "" && s.unread == "":
		s.logger.Warn("locks in rows are not exported", "reason", unread)
	case unread == "" && s.unread != "":
		s.logger.Info("locks in rows are exported")
	}
	s.unread = unread
}

// logOutage logs an outage once, not at every scrape.
func (s *source) logOutage(before, now error) {
	switch {
	case now != nil && before == nil:
		s.logger.Error("no snapshot", "error", now)
	case now == nil && before != nil:
		s.logger.Info("the server answers again")
	}
}
