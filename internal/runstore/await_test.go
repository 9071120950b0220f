package runstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// server is a backend that keeps records.
type server struct {
	driver.Backend
	state func() (at time.Time, done bool, err error)
}

func (s server) RecordRun(context.Context, runstore.Request) (runstore.State, error) {
	at, done, err := s.state()
	return runstore.State{At: at, Done: done}, err
}

func await(ctx context.Context, due time.Time, state func() (time.Time, bool, error)) (bool, error) {
	hooks.Backend = func(any) (driver.Backend, error) { return server{state: state}, nil }
	return runstore.Await(ctx, nil, runstore.Request{Due: due})
}

// A failover may lead to a server whose clock is behind, until it is set.
func TestTicksAClockThatWasBehindDelaysARunByAMinuteAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		done, err := await(t.Context(), begin, func() (time.Time, bool, error) {
			at := time.Now()
			if at.Sub(begin) < 2*time.Second {
				at = at.Add(-time.Hour)
			}
			return at, false, nil
		})
		if late := time.Since(begin); done || err != nil || late > time.Minute {
			t.Errorf("%t, %v, %v after the due time", done, err, late)
		}
	})
}

func TestTicksAnswersEndTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := time.Now().Add(24 * time.Hour)
		asked := 0
		done, err := await(t.Context(), due, func() (time.Time, bool, error) {
			asked++
			return time.Now(), asked == 3, nil
		})
		if !done || err != nil || asked != 3 { // another process, whose clock differs
			t.Errorf("%t, %v after %d questions", done, err, asked)
		}
		_, err = await(t.Context(), due, func() (time.Time, bool, error) { return time.Time{}, false, driver.ErrClosed })
		if !errors.Is(err, driver.ErrClosed) {
			t.Error(err)
		}
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err = await(ctx, due, func() (time.Time, bool, error) { return time.Now(), false, nil })
		if !errors.Is(err, why) {
			t.Error(err)
		}
	})
}
