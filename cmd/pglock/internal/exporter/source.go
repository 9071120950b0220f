package exporter

import (
	"context"
	"log/slog"
	"sync/atomic"
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

	mu    chan struct{} // guards the fields below
	begun time.Time     // time of the last attempt
	last  state

	known atomic.Pointer[state] // the last state, which may be read at any time; nil before the first
}

func newSource(ctx context.Context, o Options) *source {
	s := &source{ctx: ctx, take: o.Take, interval: o.MinInterval, logger: o.Logger, mu: make(chan struct{}, 1)}
	s.mu <- struct{}{}
	return s
}

// state returns a state no older than the interval, or taken since the call. The error is that of
// ctx.
func (s *source) state(ctx context.Context) (state, error) {
	called := time.Now()
	select {
	case <-ctx.Done():
		return state{}, context.Cause(ctx)
	case <-s.mu:
	}
	defer func() { s.mu <- struct{}{} }()
	if fresh := !s.begun.IsZero() && (!s.begun.Before(called) || time.Since(s.begun) < s.interval); !fresh {
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
	}
	s.logOutage(s.last.err, err)
	s.last = next
	s.known.Store(&next)
}

// afterFailure is how long a scrape waits for a server that did not answer the last time, so that this server does not
// delay the others.
const afterFailure = time.Second

// stateOrFailure is like state, for one of several servers. If the server did not answer the last time, the snapshot is
// taken in the background. The scrape waits for it only briefly, and then shows the failure again.
func (s *source) stateOrFailure(ctx context.Context) (state, error) {
	answered := make(chan state, 1)
	go func() {
		if now, err := s.state(s.ctx); err == nil {
			answered <- now
		}
	}()
	var patience <-chan time.Time
	known := s.known.Load()
	if known != nil && known.err != nil {
		patience = time.After(afterFailure)
	}
	select {
	case now := <-answered:
		return now, nil
	case <-patience:
		return *known, nil
	case <-ctx.Done():
		return state{}, context.Cause(ctx)
	case <-s.ctx.Done():
		return state{}, context.Cause(s.ctx)
	}
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
