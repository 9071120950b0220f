package redisfallback

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (ws *waiters) wake(number string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byNumber[number]; w != nil {
		w.signal()
	}
}

func (ws *waiters) wakeAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byNumber {
		w.signal()
	}
}

// wakeSlot wakes the waiters of a slot.
func (ws *waiters) wakeSlot(tag string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byNumber {
		if w.names.tag == tag {
			w.signal()
		}
	}
}

// subscribeLocked subscribes to the channel that wakes w: that of its slot, or the Locker's on every node.
func (ws *waiters) subscribeLocked(w *waiter) {
	if ws.backend.sharded.Load() {
		ws.shards.want(w.names.tag)
		return
	}
	if ws.subs != nil {
		return
	}
	ws.subs, ws.checked = make([]*subscription, len(ws.backend.nodes)), driver.Now()
	for i := range ws.subs {
		ws.subscribeToLocked(i)
	}
}

// subscription is the subscription to the Locker's channel on one node.
type subscription struct {
	*redis.PubSub
	heard atomic.Bool // it has received a message since the last check
}

func (ws *waiters) subscribeToLocked(node int) {
	sub := &subscription{PubSub: ws.backend.nodes[node].client.Subscribe(ws.ctx)}
	sub.heard.Store(true)
	ws.subs[node] = sub
	ws.stopped.Go(func() { ws.listen(sub) })
}

// checkInterval is the time between two checks of the subscriptions, if the lease is not shorter.
const checkInterval = 5 * time.Second

// checkSubscriptionsLocked makes those subscriptions anew that have received nothing since the last check, and reports
// whether it is time for the next one: the user was without the right to subscribe for some time, or the network has
// lost the connection without ending it. Package redis notices neither.
func (ws *waiters) checkSubscriptionsLocked(now driver.Instant) bool {
	if ws.closed || len(ws.subs) == 0 || now.Sub(ws.checked) < min(checkInterval, ws.backend.env.Lease) {
		return false
	}
	ws.checked = now
	for i, sub := range ws.subs {
		if !sub.heard.Swap(false) {
			ws.stopped.Go(func() { _ = sub.Close() }) // it is of no use any more
			ws.subscribeToLocked(i)
		}
	}
	return true
}

// checkSubscriptions sends each subscription a message that is for none of the waiters.
func (ws *waiters) checkSubscriptions() {
	for _, n := range ws.backend.nodes {
		n.submit(&call{request: request{args: []any{"publish", wakeChannel + ws.backend.instance, "0"}}})
	}
}

// wakeChannel, followed by a Locker's instance, is the name of its channel.
const wakeChannel = "pglock:wake:"

// listen wakes the waiters named in messages. It wakes all after a subscription, since earlier messages are lost.
func (ws *waiters) listen(sub *subscription) {
	if err := sub.Subscribe(ws.ctx, wakeChannel+ws.backend.instance); errors.Is(err, redis.ErrClosed) {
		return
	} // after any other error the channel below retries
	for message := range sub.ChannelWithSubscriptions() {
		switch m := message.(type) {
		case *redis.Message:
			sub.heard.Store(true)
			ws.wake(m.Payload)
		case *redis.Subscription:
			ws.wakeAll()
		}
	}
}
