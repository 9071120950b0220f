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

// slowNode returns a node, and a function that blocks it with count commands that the server does not answer until the
// returned function is called. The commands, each about a lock if they are about locks, run by send.
func slowNode(t *testing.T, aboutLocks bool, send func(*node, *call)) (n *node, block func(count int) (release func())) {
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
	blocked := 0
	return n, func(count int) (release func()) {
		for range count {
			blocked++
			key := "nothing:" + strconv.Itoa(blocked)
			c := &call{request: request{args: []any{"blpop", key, 0}}}
			if aboutLocks {
				c.about = []holding{{names: names{lock: key}}}
			}
			send(n, c)
			testenv.WaitUntil(t, "one more command is blocked", func() bool {
				return strings.Contains(server.Must(t, "INFO", "clients"), "blocked_clients:"+strconv.Itoa(blocked))
			})
		}
		return func() {
			for i := range blocked {
				server.Must(t, "LPUSH", "nothing:"+strconv.Itoa(i+1), "now")
			}
		}
	}
}

func ping(done chan<- struct{}) *call {
	return &call{request: request{args: []any{"ping"}}, done: done}
}

// TestNodeSendsCallsWhileOthersAreUnanswered: a connection that is broken must not delay the calls that follow.
func TestNodeSendsCallsWhileOthersAreUnanswered(t *testing.T) {
	n, block := slowNode(t, true, func(n *node, c *call) { n.submit(c) })
	release := block(maxFlushes - 1)
	defer release()
	done := make(chan struct{}, 1)
	n.submit(ping(done))
	<-done
}

func TestCallsForWhichNoFlushIsFreeShareTheNextOne(t *testing.T) {
	n, block := slowNode(t, true, func(n *node, c *call) { n.submit(c) })
	release := block(maxFlushes)
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
		n, block := slowNode(t, aboutLocks, func(n *node, c *call) {
			callers.Go(func() {
				if sent, left := n.sendDirectly(context.Background(), c); !sent || left {
					t.Errorf("sent %v and left %v, want it sent", sent, left)
				}
			})
		})
		release := block(maxDirect)
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
