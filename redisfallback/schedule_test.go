package redisfallback_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/suites/scheduletest"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

func TestSchedulePassesTheSuite(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		if m.name == "Redlock" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			scheduletest.Exercise(t, opener(m.clients(t)))
		})
	}
}

func TestScheduleNeedsOneServer(t *testing.T) {
	job, err := schedule.New(open(t, newClients(t, servers(t, 3)), nil), pglock.NewKey("job"))
	if err != nil {
		t.Fatal(err)
	}
	err = job.Run(t.Context(), time.Now(), func(context.Context, *pglock.Lock) error { return nil })
	if !errors.Is(err, pglock.ErrUnsupported) {
		t.Error(err)
	}
}
