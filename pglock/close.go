package pglock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Close closes the Locker: new acquires and waiting ones fail with [ErrClosed], and Close waits until the locks that are
// held have been unlocked. When ctx ends before that it ends them itself: their Contexts end, Err is a *[LostError] with
// reason closed, holders get a grace of up to a second to notice and to call Unlock, and then the locks are released.
// The error says how many locks were ended so, and matches the context's error.
//
// After the end of ctx Close takes at most a quarter of a minute, however many locks there are, and whether the server
// answers or not: after five seconds the sessions are ended instead, which frees their locks as soon as the server sees
// it, at the latest when the lease is over.
//
// A second Close returns nil at once.
func (l *Locker) Close(ctx context.Context) error {
	if !l.refuse() {
		return nil
	}
	if backend, ok := l.backend.(driver.Refuser); ok {
		backend.Refuse()
	}
	var err error
	var ended []loss
	select {
	case <-l.drained:
	case <-ctx.Done():
		ended, err = l.endAll(context.Cause(ctx))
	}
	ctx = context.WithoutCancel(ctx)
	releases := l.releaseAll(ctx, ended)
	l.awaitDrained(ctx)
	releases.stop()
	within, cancel := context.WithTimeout(ctx, closeWithin)
	defer cancel()
	closeErr := l.backend.Close(within)
	if closeErr != nil {
		closeErr = fmt.Errorf("pglock: close: %w", closeErr)
	}
	l.news.wait(within)
	return errors.Join(err, releases.err(), closeErr)
}

// awaitDrained waits for the last locks to be released. It does not wait for ever: an Unlock, or an acquire that was
// cancelled, may hang, and its session is ended under it.
func (l *Locker) awaitDrained(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeWithin)
	defer cancel()
	select {
	case <-l.drained:
	case <-ctx.Done():
	}
}

// refuse turns away whoever waits and whoever will come, and reports false when that has been done before.
func (l *Locker) refuse() bool {
	if !l.closed.CompareAndSwap(false, true) {
		return false
	}
	for i := range l.shards {
		l.refuseIn(&l.shards[i])
	}
	return true
}

func (l *Locker) refuseIn(s *shard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.inUse == 0 {
		l.shardDrained()
	}
	for r := range s.asking {
		r.cancel(ErrClosed)
	}
	for _, entries := range s.entries {
		for _, e := range entries {
			e.refuse()
		}
	}
}

// refuse turns away those who wait in the queue.
func (e *entry) refuse() {
	for _, r := range e.queue {
		r.err = ErrClosed
		close(r.ready)
	}
	e.queue, e.writers = nil, 0
}

// endAll ends the locks that are still held, and gives their holders a moment.
func (l *Locker) endAll(cause error) (ended []loss, err error) {
	ended, noticed := l.endHeld(cause)
	if len(ended) == 0 { // the last one was unlocked just then
		return nil, nil
	}
	for _, loss := range ended {
		l.news.add(loss.report)
	}
	grace, cancel := context.WithTimeout(context.Background(), graceWhenClosed)
	defer cancel()
	for _, holder := range noticed {
		select {
		case <-holder:
		case <-grace.Done():
		}
	}
	return ended, fmt.Errorf("pglock: close: locks that were still held have been ended (%d): %w", len(ended), cause)
}

// releases are the locks that Close gives back, side by side, since each may have to wait for a server that is silent.
type releases struct {
	stopped atomic.Bool
	workers sync.WaitGroup

	mu     sync.Mutex
	failed int
	first  error
}

// releaseAll begins to release the locks.
func (l *Locker) releaseAll(ctx context.Context, ended []loss) *releases {
	r := &releases{}
	next := make(chan *Lock, len(ended))
	for _, loss := range ended {
		next <- loss.lock
	}
	close(next)
	for range min(len(ended), releaseTogether) {
		r.workers.Go(func() {
			for lock := range next {
				if r.stopped.Load() { // its session is being ended
					return
				}
				r.note(l.drop(ctx, lock))
			}
		})
	}
	return r
}

func (r *releases) note(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed++; r.first == nil {
		r.first = err
	}
}

// stop begins no further releases. Those that have begun end when the backend is closed.
func (r *releases) stop() { r.stopped.Store(true) }

// err waits for the releases that have begun, and returns what went wrong with the first that failed.
func (r *releases) err() error {
	r.workers.Wait()
	if r.failed > 1 {
		return fmt.Errorf("%w (and %d more)", r.first, r.failed-1)
	}
	return r.first
}

// endHeld ends all locks, and returns those that it did end, each with a channel that its holder's Unlock closes.
func (l *Locker) endHeld(cause error) (ended []loss, noticed []<-chan struct{}) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for _, k := range s.locks() {
			notice, lost := k.expectNotice(), k.lostError(LostClosed, cause)
			if k.end(lost) {
				ended, noticed = append(ended, loss{k, lost}), append(noticed, notice)
				s.counts.Lost++
			}
		}
		s.mu.Unlock()
	}
	return ended, noticed
}

const (
	graceWhenClosed = time.Second
	releaseTogether = 1000
)
