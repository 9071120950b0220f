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

// event is an event of a call for permits.
func (s *Semaphore) event(what pglock.EventType) pglock.Event {
	return pglock.Event{Type: what, Keys: []pglock.Key{s.key}, Use: s.use()}
}

// reportEnd reports how a call for permits has ended.
func (s *Semaphore) reportEnd(ctx context.Context, try, awaited bool, waited time.Duration, err error) {
	e := s.event(pglock.EventWaitEnded)
	e.Try, e.Err = try, err
	if awaited {
		e.Took = waited
		hooks.Observe(ctx, s.locker, e)
	}
	if e.Type = pglock.EventFailed; err != nil {
		hooks.Observe(ctx, s.locker, e)
	}
}

// recordName writes the name and the limit into the registry, if the Locker records names.
func (s *Semaphore) recordName() {
	backend, err := hooks.Backend(s.locker)
	if recorder, ok := backend.(hooks.Recorder); err == nil && ok {
		recorder.Record(driver.Key{KeyID: pglock.NewKey(s.name).ID(), Name: s.name, Named: true})
	}
}
