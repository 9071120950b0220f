package redisfallback

import (
	"context"
	"errors"
	"sync"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// waiters are a Locker's waiters, which messages wake. A message can get lost, a holder can die, and clients of other
// libraries send none, so a Locker also polls the keys, all together and rarely.
type waiters struct {
	backend *backend

	mu       sync.Mutex
	byNumber map[string]*waiter // by number
	subs     []*subscription    // by node
	checked  driver.Instant     // when the subscriptions were last checked
	shards   shards             // instead of subs, on a Cluster with sharded pub/sub
	running  bool
	closed   bool
	earlier  chan struct{}  // a waiter is due earlier than planned
	frequent driver.Instant // the next frequent poll
	node     int            // the index of the node that is polled
	ctx      context.Context
	stop     context.CancelFunc
	stopped  sync.WaitGroup
}

// waiter waits for one key.
type waiter struct {
	grant *grant
	names names
	wake  chan struct{} // holds one token
	due   driver.Instant
	fresh driver.Instant // when its line was last renewed

	often bool           // poll often: the holder is not ours, and this waiter is first in line
	seen  string         // the holder's token at the last poll, if it was not ours
	since driver.Instant // when seen was first seen
}

// enter adds a waiter for the grant's key i.
func (ws *waiters) enter(g *grant, i int) *waiter {
	now := driver.Now()
	w := &waiter{grant: g, names: g.keys[i].names, wake: make(chan struct{}, 1), due: driver.Never, fresh: now}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.byNumber == nil {
		ws.byNumber, ws.earlier = map[string]*waiter{}, make(chan struct{}, 1)
		ws.ctx, ws.stop = context.WithCancel(context.Background())
	}
	ws.byNumber[g.number()] = w
	if ws.closed {
		return w
	}
	ws.subscribeLocked(w)
	if !ws.running {
		ws.running = true
		ws.stopped.Go(ws.run)
	}
	return w
}

func (ws *waiters) leave(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.byNumber, w.grant.number())
}

// close ends the subscriptions and what serves the waiters. Package redis locks a subscription while it dials, which a
// silent network can draw out. close waits for that until ctx ends; then it ends in the background.
func (ws *waiters) close(ctx context.Context) error {
	ws.mu.Lock()
	subs := ws.subs
	if ws.closed {
		subs = nil
	}
	ws.closed = true
	if ws.stop != nil {
		ws.stop()
	}
	ws.mu.Unlock()
	ended := make(chan error, 1)
	go func() {
		var err error
		for _, sub := range subs {
			err = errors.Join(err, sub.Close())
		}
		err = errors.Join(err, ws.shards.close())
		ws.stopped.Wait()
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}
