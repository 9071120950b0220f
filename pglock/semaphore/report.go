package semaphore

import (
	"context"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// This file says what the semaphore does: to the Observer of the Locker, and to the monitor.

func (s *Semaphore) use() pglock.Use { return pglock.Use{Kind: pglock.UsePermit, Key: s.key} }

func (s *Semaphore) observer() *pglock.Observer { return hooks.Observer(s.locker).(*pglock.Observer) }

// info is what the Observer learns of permits.
func (s *Semaphore) info() pglock.LockInfo {
	return pglock.LockInfo{Keys: []pglock.Key{s.key}, Use: s.use()}
}

// reportWait reports that a call waits for permits, and returns the context for its later reports.
func (s *Semaphore) reportWait(ctx context.Context) context.Context {
	if o := s.observer(); o.WaitStarted != nil {
		if own := o.WaitStarted(ctx, pglock.WaitStartedInfo{LockInfo: s.info()}); own != nil {
			return own
		}
	}
	return ctx
}

// reportEnd reports how a call for permits has ended.
func (s *Semaphore) reportEnd(ctx context.Context, try, awaited bool, waited time.Duration, err error) {
	if !awaited {
		waited = 0
	}
	o := s.observer()
	if awaited && o.WaitEnded != nil {
		o.WaitEnded(ctx, pglock.WaitEndedInfo{LockInfo: s.info(), Waited: waited, Err: err})
	}
	if err != nil && o.Failed != nil {
		o.Failed(ctx, pglock.FailedInfo{LockInfo: s.info(), Try: try, Waited: waited, Err: err})
	}
}

// recordName writes the name and the limit into the registry, if the Locker records names.
func (s *Semaphore) recordName() {
	backend, err := hooks.Backend(s.locker)
	if recorder, ok := backend.(hooks.Recorder); err == nil && ok {
		recorder.Record([]driver.Key{{KeyID: pglock.NewKey(s.name).ID(), Name: s.name, Named: true}})
	}
}
