package redisfallback

import (
	"errors"

	"github.com/redis/go-redis/v9"
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
	for _, n := range ws.backend.nodes {
		sub := n.client.Subscribe(ws.ctx)
		ws.subs = append(ws.subs, sub)
		ws.stopped.Go(func() { ws.listen(sub) })
	}
}

// wakeChannel, followed by a Locker's instance, is the name of its channel.
const wakeChannel = "pglock:wake:"

// listen wakes the waiters named in messages. It wakes all after a subscription, since earlier messages are lost.
func (ws *waiters) listen(sub *redis.PubSub) {
	if err := sub.Subscribe(ws.ctx, wakeChannel+ws.backend.instance); errors.Is(err, redis.ErrClosed) {
		return
	} // after any other error the channel below retries
	for message := range sub.ChannelWithSubscriptions() {
		switch m := message.(type) {
		case *redis.Message:
			ws.wake(m.Payload)
		case *redis.Subscription:
			ws.wakeAll()
		}
	}
}
