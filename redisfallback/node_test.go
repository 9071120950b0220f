package redisfallback

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// TestNodeCallsAboutALockKeepTheirOrder: the first call takes long on its connection, while others are free.
func TestNodeCallsAboutALockKeepTheirOrder(t *testing.T) {
	server := testenv.NewRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}()
	n := &node{client: client, name: nodeName(client), timeout: time.Minute}
	var mu sync.Mutex
	var order []string
	var done sync.WaitGroup
	newCall := func(name string, locks []string, args ...any) *call {
		done.Add(1)
		about := make([]holding, len(locks))
		for i, lock := range locks {
			about[i].lock = lock
		}
		return &call{request: request{args: args}, about: about, then: func(*call) {
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			done.Done()
		}}
	}
	n.submit(newCall("slow", []string{"a"}, "blpop", "nothing", 1))
	testenv.WaitUntil(t, "the slow one is running", func() bool {
		return strings.Contains(server.Must(t, "INFO", "clients"), "blocked_clients:1")
	})
	n.submit(newCall("behind it", []string{"b", "a"}, "ping"))
	n.submit(newCall("behind that", []string{"b"}, "ping"))
	n.submit(newCall("free", []string{"c"}, "ping"))
	if last := newCall("last", []string{"a"}, "ping"); wasSent(n.sendDirectly(t.Context(), last)) {
		t.Error("a call overtook others about the same lock")
	} else {
		n.submit(last)
	}
	done.Wait()
	if order[0] != "free" || slices.Index(order, "slow") != 1 || len(order) != 5 ||
		slices.Index(order, "behind it") > slices.Index(order, "behind that") {
		t.Errorf("they ended in the order %q", order)
	}
	if len(n.last) > 0 {
		t.Errorf("the node still tracks %v", n.last)
	}
}

func wasSent(sent, _ bool) bool { return sent }
