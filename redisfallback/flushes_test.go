package redisfallback

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// slowNode returns a node that is blocked by commands, which the server does not answer until release is called. Each is about a
// lock if they are about locks, and runs by send.
func slowNode(t *testing.T, commands int, aboutLocks bool, send func(*node, *call)) (n *node, release func()) {
	server := testenv.NewRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute, PoolSize: 2 * maxFlushes})
	n = newNode(client, false)
	n.timeout = time.Minute
	t.Cleanup(func() {
		n.drain(context.Background())
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	key := func(i int) string { return "nothing:" + strconv.Itoa(i) }
	for i := range commands {
		c := &call{request: request{args: []any{"blpop", key(i), 0}}}
		if aboutLocks {
			c.about = []holding{{names: names{lock: key(i)}}}
		}
		send(n, c)
		testenv.WaitUntil(t, "one more command is blocked", func() bool {
			return strings.Contains(server.Must(t, "INFO", "clients"), "blocked_clients:"+strconv.Itoa(i+1))
		})
	}
	return n, func() {
		for i := range commands {
			server.Must(t, "LPUSH", key(i), "now")
		}
	}
}

func ping(done chan<- struct{}) *call {
	return &call{request: request{args: []any{"ping"}}, done: done}
}

// TestNodeSendsCallsWhileOthersAreUnanswered: a connection that is broken must not delay the calls that follow.
func TestNodeSendsCallsWhileOthersAreUnanswered(t *testing.T) {
	n, release := slowNode(t, maxFlushes-1, true, func(n *node, c *call) { n.submit(c) })
	defer release()
	done := make(chan struct{}, 1)
	n.submit(ping(done))
	<-done
}

func TestCallsForWhichNoFlushIsFreeShareTheNextOne(t *testing.T) {
	n, release := slowNode(t, maxFlushes, true, func(n *node, c *call) { n.submit(c) })
	if sent, _ := n.sendDirectly(context.Background(), ping(nil)); sent {
		t.Error("a caller sent its call itself although there are many")
	}
	const calls = 3
	done := make(chan struct{}, calls)
	for range calls {
		n.submit(ping(done))
	}
	n.mu.Lock()
	flushes, waiting := n.flushes, len(n.waiting)
	n.mu.Unlock()
	if flushes != maxFlushes || waiting != calls {
		t.Errorf("%d flushes and %d waiting calls, want %d and %d", flushes, waiting, maxFlushes, calls)
	}
	release()
	for range calls {
		<-done
	}
}

func TestFewCallersSendTheirCallsThemselves(t *testing.T) {
	for _, aboutLocks := range []bool{true, false} {
		var callers sync.WaitGroup
		n, release := slowNode(t, maxDirect, aboutLocks, func(n *node, c *call) {
			callers.Go(func() {
				if sent, left := n.sendDirectly(context.Background(), c); !sent || left {
					t.Errorf("sent %v and left %v, want it sent", sent, left)
				}
			})
		})
		done := make(chan struct{}, 1)
		if sent, _ := n.sendDirectly(context.Background(), ping(done)); sent {
			t.Errorf("%d callers sent their calls themselves (about locks: %v)", maxDirect+1, aboutLocks)
		}
		n.submit(ping(done)) // a flush is free all the same
		<-done
		release()
		callers.Wait()
		if sent, _ := n.sendDirectly(context.Background(), ping(done)); !sent {
			t.Error("the callers have their answers, and the next one did not send its call itself")
		}
	}
}
