package exporter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// blockedTaker takes snapshots that wait until proceed is closed, and counts them.
type blockedTaker struct {
	taken   int
	proceed chan struct{}
}

func (b *blockedTaker) take(context.Context) (*monitor.Snapshot, error) {
	b.taken++
	<-b.proceed
	return &monitor.Snapshot{}, nil
}

func (b *blockedTaker) source(ctx context.Context) *source {
	return newSource(ctx, Options{Take: b.take, Logger: slog.New(slog.DiscardHandler)})
}

func TestScrapesAtOnceShareASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := blockedTaker{proceed: make(chan struct{})}
		s := b.source(t.Context())
		var scrapes sync.WaitGroup
		scrape := func() {
			if _, err := s.state(t.Context()); err != nil {
				t.Error(err)
			}
		}
		scrapes.Go(scrape)
		synctest.Wait()
		time.Sleep(time.Millisecond) // the other scrapes come later, and want a newer snapshot
		for range 20 {
			scrapes.Go(scrape)
		}
		synctest.Wait()
		close(b.proceed)
		scrapes.Wait()
		if b.taken != 2 {
			t.Errorf("21 scrapes led to %d snapshots, want one for the first and one for all others", b.taken)
		}
	})
}

func TestACancelledScrapeStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := blockedTaker{proceed: make(chan struct{})}
		s := b.source(t.Context())
		var scrapes sync.WaitGroup
		scrapes.Go(func() { _, _ = s.state(t.Context()) })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.state(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		close(b.proceed)
		scrapes.Wait()
	})
}
