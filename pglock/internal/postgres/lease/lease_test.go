package lease_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/lease"
)

const length = 10 * time.Second

// begin returns an instant, which may be negative, and a lease of which the clock stands still until it is set.
func begin(at time.Duration) (start driver.Instant, now *driver.Instant, l *lease.Lease) {
	start = driver.Instant(at)
	now = new(driver.Instant)
	*now = start
	return start, now, lease.New(length, func() driver.Instant { return *now })
}

func TestLeaseCountsFromTheSendLessATenth(t *testing.T) {
	for _, at := range []time.Duration{0, time.Hour, -time.Hour} {
		start, now, l := begin(at)
		if got := l.Deadline().Sub(start); got != 9*time.Second {
			t.Errorf("at %v a new lease lasts %v", at, got)
		}
		*now = start.Add(5 * time.Second)
		l.Renew(start.Add(3 * time.Second)) // the answer came 2 s later
		if got := l.Left(); got != 7*time.Second {
			t.Errorf("at %v there are %v left, want 7s", at, got)
		}
		if l.Every() != 2*time.Second || l.Length() != length || l.Now() != *now {
			t.Errorf("heartbeats every %v, length %v, now %v", l.Every(), l.Length(), l.Now())
		}
	}
}

func TestLeaseIsOverAtItsDeadline(t *testing.T) {
	_, now, l := begin(0)
	*now = l.Deadline().Add(-1)
	if l.Over() || l.Reason() != driver.LostSession {
		t.Errorf("just before the deadline: over %v, %v", l.Over(), l.Reason())
	}
	*now = l.Deadline()
	if !l.Over() || l.Reason() != driver.LostLease {
		t.Errorf("at the deadline: over %v, %v", l.Over(), l.Reason())
	}
}

// Answers are read by several goroutines, so renewals may come in any order.
func TestLeaseNeverMovesBack(t *testing.T) {
	start, _, l := begin(0)
	const last = 1000
	var all sync.WaitGroup
	for _, sent := range rand.Perm(last + 1) {
		all.Go(func() {
			l.Renew(start.Add(time.Duration(sent)))
			if want := start.Add(time.Duration(sent) + 9*time.Second); l.Deadline() < want {
				t.Errorf("the deadline is %v, before %v", l.Deadline(), want)
			}
		})
	}
	all.Wait()
	if got := l.Deadline(); got != start.Add(last+9*time.Second) {
		t.Errorf("the deadline is %v", got)
	}
}
