package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

func TestScheduleMisuseIsAnError(t *testing.T) {
	l, err := locktest.NewMemory()
	must.Closing(t, l, err)
	wants := func(what, want string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for want, key := range map[string]pglock.Key{
		"this one 1025": pglock.NewKey(strings.Repeat("x", 1025)), "NUL": pglock.NewKey("a\x00"), "invalid lock key": {},
	} {
		_, err := schedule.New(l, key)
		wants("a key", want, err)
	}
	for want, opt := range map[string]schedule.Option{
		"nil": nil, "WithMark": schedule.WithMark(0), "WithKeep": schedule.WithKeep(0), "WithCatchUp": schedule.WithCatchUp(0, nil),
	} {
		_, err := schedule.New(l, pglock.NewKey("a"), opt)
		wants("an option", want, err)
	}
	_, err = schedule.New(nil, pglock.NewKey("a"))
	wants("a nil Locker", "nil", err)
	_, err = schedule.Every(0)
	wants("Every(0)", "at least", err)
	job, err := schedule.New(l, pglock.NewKey("a"))
	must.Succeed(t, err)
	wants("no due time", "zero", job.Run(t.Context(), time.Time{}, nothing))
	wants("a far due time", "year", job.Run(t.Context(), day.AddDate(20000, 0, 0), nothing))
	wants("no function", "nil", job.Run(t.Context(), day, nil))
	for want, opt := range map[string]pglock.LockOption{"nil": nil, "negative": pglock.MaxWait(-1), "Shared": pglock.Shared()} {
		wants("an option of a run", want, job.Run(t.Context(), day, nothing, opt))
	}
}
