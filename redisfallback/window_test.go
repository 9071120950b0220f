package redisfallback

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// occupied returns a node at a distance from the server, one call of which the server does not answer, and a function that
// makes the server answer it.
func occupied(t *testing.T, roundTrip time.Duration, watched bool) (n *node, release func()) {
	server := testenv.NewRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	n = newNode(client, false)
	n.timeout, n.roundTrip = time.Minute, roundTrip
	if !watched {
		n.watch = time.AfterFunc(time.Hour, func() {})
	}
	t.Cleanup(func() {
		n.flushing.Wait()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	n.submit(&call{request: request{args: []any{"blpop", "nothing", 0}}})
	testenv.WaitUntil(t, "the first call is running", func() bool {
		return strings.Contains(server.Must(t, "INFO", "clients"), "blocked_clients:1")
	})
	return n, func() { server.Must(t, "LPUSH", "nothing", "now") }
}

func pings(count int) (calls []*call, done chan struct{}) {
	done = make(chan struct{}, count)
	for range count {
		calls = append(calls, &call{request: request{args: []any{"ping"}}, done: done})
	}
	return calls, done
}

func (n *node) flushes() (inFlight, waiting int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.inFlight, len(n.waiting)
}

func TestNodeNearTheServerSendsTheNextCallsTogether(t *testing.T) {
	n, release := occupied(t, far, false)
	defer release()
	few, _ := pings(enough - 1)
	for _, c := range few {
		n.submit(c)
	}
	if inFlight, waiting := n.flushes(); inFlight != 1 || waiting != enough-1 {
		t.Errorf("%d flushes are in flight and %d calls wait, want 1 and %d", inFlight, waiting, enough-1)
	}
	one, done := pings(1)
	n.submit(one...) // now they are enough
	<-done
}

func TestNodeFarFromTheServerSendsCallsAtOnce(t *testing.T) {
	n, release := occupied(t, far+1, false)
	defer release()
	one, done := pings(1)
	n.submit(one...)
	<-done
}

// TestNodeWithABrokenConnectionSendsCallsOverAnother: no further call comes that could notice it.
func TestNodeWithABrokenConnectionSendsCallsOverAnother(t *testing.T) {
	n, release := occupied(t, far, true)
	defer release()
	n.mu.Lock()
	n.roundTrip = far // again, if the node has found already that nothing is answered
	n.watchLocked()
	n.mu.Unlock()
	one, done := pings(1)
	n.submit(one...)
	<-done
}

func TestNodeLearnsHowFarTheServerIsFromAnswersOnly(t *testing.T) {
	server := testenv.NewRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	defer func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}()
	n := newNode(client, false)
	n.timeout = time.Minute
	send := func() time.Duration {
		one, done := pings(1)
		n.submit(one...)
		<-done
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.roundTrip
	}
	server.Kill(t)
	if before := send(); before != time.Hour {
		t.Errorf("a round trip took %v although nothing answered", before)
	}
	server.Start(t)
	if after := send(); after == time.Hour {
		t.Error("the answer did not count")
	}
}
