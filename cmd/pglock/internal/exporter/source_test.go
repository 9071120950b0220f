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

// blocked takes snapshots that wait until goOn is closed, and counts them.
type blocked struct {
	taken int
	goOn  chan struct{}
}

func (b *blocked) take(context.Context) (*monitor.Snapshot, error) {
	b.taken++
	<-b.goOn
	return &monitor.Snapshot{}, nil
}

func (b *blocked) source(ctx context.Context) *source {
	return newSource(ctx, Options{Take: b.take, Logger: slog.New(slog.DiscardHandler)})
}

func TestScrapesAtOnceShareASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := blocked{goOn: make(chan struct{})}
		s := b.source(t.Context())
		var scrapes sync.WaitGroup
		scrape := func() {
			if _, err := s.state(t.Context()); err != nil {
				t.Error(err)
			}
		}
		scrapes.Go(scrape)
		synctest.Wait()
		time.Sleep(time.Millisecond) // of the test's own clock: the others come later, and want a newer one
		for range 20 {
			scrapes.Go(scrape)
		}
		synctest.Wait()
		close(b.goOn)
		scrapes.Wait()
		if b.taken != 2 {
			t.Errorf("21 scrapes led to %d snapshots, want one for the first and one for all others", b.taken)
		}
	})
}

func TestAScrapeThatIsGivenUpStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := blocked{goOn: make(chan struct{})}
		s := b.source(t.Context())
		var scrapes sync.WaitGroup
		scrapes.Go(func() { _, _ = s.state(t.Context()) })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.state(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		close(b.goOn)
		scrapes.Wait()
	})
}
