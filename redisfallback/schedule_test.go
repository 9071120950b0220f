package redisfallback_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/suites/scheduletest"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

func TestSchedulePassesTheSuite(t *testing.T) {
	t.Parallel()
	for name, client := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheduletest.Exercise(t, opener([]redis.UniversalClient{client(t)}))
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
