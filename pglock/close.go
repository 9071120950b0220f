package pglock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Close closes the Locker: new acquires and waiting ones fail with [ErrClosed], and Close waits until the locks that are
// held have been unlocked. When ctx ends before that it ends them itself: their Contexts end, Err is a *[LostError] with
// reason closed, holders get a grace of up to a second to notice and to call Unlock, and then the locks are released.
// The error says how many locks were ended so, and matches the context's error.
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
	select {
	case <-l.drained:
	case <-ctx.Done():
		err = l.endAll(context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	select {
	case <-l.drained:
	case <-ctx.Done(): // somebody's Unlock, or an acquire that was cancelled, hangs: its session is ended under it
	}
	if closeErr := l.backend.Close(ctx); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("pglock: close: %w", closeErr))
	}
	return err
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

// endAll ends the locks that are still held, gives their holders a moment, and releases them.
func (l *Locker) endAll(cause error) error {
	ended, noticed := l.endHeld(cause)
	for _, loss := range ended {
		loss.tell()
	}
	grace, cancel := context.WithTimeout(context.Background(), graceWhenClosed)
	defer cancel()
	for _, holder := range noticed {
		select {
		case <-holder:
		case <-grace.Done():
		}
	}
	if len(ended) == 0 { // the last one was unlocked just then
		return nil
	}
	err := fmt.Errorf("pglock: close: locks that were still held have been ended (%d): %w", len(ended), cause)
	for _, loss := range ended {
		err = errors.Join(err, l.drop(context.Background(), loss.lock))
	}
	return err
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

const graceWhenClosed = time.Second
