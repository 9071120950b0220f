package redisfallback

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// shards are a Locker's subscriptions on a Cluster whose servers have sharded pub/sub: a message then goes to the
// server of its slot instead of to all (https://redis.io/docs/latest/develop/interact/pubsub/#sharded-pubsub). There is
// a channel for each slot with waiters, and a connection for each master that has such a slot. Package redis
// resubscribes a connection's channels only if they are all in one slot, so that is done here. While a channel is not
// subscribed, the next poll wakes its waiters.
type shards struct {
	waiters *waiters
	cluster *redis.ClusterClient
	known   atomic.Bool // whether sharded pub/sub exists has been found out

	mu      sync.Mutex
	slots   map[string]string        // the address of the subscribed master by slot tag; "" while there is none
	masters map[string]*redis.PubSub // by address
}

// shardMark begins the name of a Locker whose waiters are woken by sharded pub/sub.
const shardMark = "/"

// uncounted begins the name of a Locker on a Cluster without sharded pub/sub. A server cannot count its subscriptions,
// which may be at another server.
const uncounted = "~"

// probe finds out once whether the servers have sharded pub/sub. If they do not answer, the next call asks again.
func (s *shards) probe(ctx context.Context) {
	b := s.waiters.backend
	if s.cluster == nil || s.known.Load() || b.sharded.Load() {
		return
	}
	calls := b.calls(nil, nil, "command", "info", "spublish")
	if t, err := b.round(ctx, calls); err != nil || t.failed > 0 {
		return
	}
	if infos, ok := calls[0].value.([]any); ok && len(infos) == 1 && infos[0] != nil {
		b.sharded.Store(true)
	}
	s.known.Store(true)
}

// channel is the Locker's channel in the slot of tag.
func (s *shards) channel(tag string) string { return tag + "wake:" + s.waiters.backend.locker() }

// want subscribes to the channel of a slot, if that has not been done.
func (s *shards) want(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots == nil {
		s.slots, s.masters = map[string]string{}, map[string]*redis.PubSub{}
	}
	if _, ok := s.slots[tag]; !ok {
		s.slots[tag] = ""
		s.waiters.stopped.Go(func() { s.subscribe(tag) })
	}
}

// subscribe subscribes at the slot's master; receive gets the answer.
func (s *shards) subscribe(tag string) {
	ctx := s.waiters.ctx
	master, err := s.cluster.MasterForKey(ctx, s.channel(tag))
	if err == nil {
		err = s.master(tag, master).SSubscribe(ctx, s.channel(tag))
	}
	if err != nil {
		s.forget(tag)
	}
}

// master returns the subscription at a master, and makes it if there is none.
func (s *shards) master(tag string, client *redis.Client) *redis.PubSub {
	addr := client.Options().Addr
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots[tag] = addr
	sub := s.masters[addr]
	if sub == nil {
		sub = client.SSubscribe(s.waiters.ctx)
		s.masters[addr] = sub
		s.waiters.stopped.Go(func() { s.receive(addr, sub) })
	}
	return sub
}

// forget allows a slot to be subscribed again.
func (s *shards) forget(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.slots, tag)
}

// receive wakes the waiters named in messages, until the connection fails.
func (s *shards) receive(addr string, sub *redis.PubSub) {
	silent := false // since the last ping
	for {
		message, err := sub.ReceiveTimeout(s.waiters.ctx, pingAfter)
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() && !silent {
			silent = true
			err = sub.Ping(s.waiters.ctx)
			message = nil
		}
		if err != nil {
			s.drop(addr, sub)
			return
		}
		if message != nil {
			silent = false
		}
		s.handle(message)
	}
}

// pingAfter is how long a subscription may be silent before it is pinged.
const pingAfter = 10 * time.Second

func (s *shards) handle(message any) {
	switch m := message.(type) {
	case *redis.Message:
		s.waiters.wake(m.Payload)
	case *redis.Subscription:
		tag := strings.TrimSuffix(m.Channel, "wake:"+s.waiters.backend.locker())
		if m.Kind == "sunsubscribe" { // the slot has moved to another master
			s.forget(tag)
			s.cluster.ReloadState(s.waiters.ctx)
			return
		}
		s.waiters.wakeSlot(tag) // earlier messages are lost
	}
}

// drop closes a connection that failed or whose master has lost a slot. The next poll subscribes its slots again.
func (s *shards) drop(addr string, sub *redis.PubSub) {
	_ = sub.Close() // it has failed already
	s.cluster.ReloadState(s.waiters.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.masters[addr] == sub {
		delete(s.masters, addr)
	}
	for tag, at := range s.slots {
		if at == addr {
			delete(s.slots, tag)
		}
	}
}

// close closes the subscriptions. The context of the waiters has ended by then.
func (s *shards) close() (err error) {
	s.mu.Lock()
	subs := make([]*redis.PubSub, 0, len(s.masters))
	for _, sub := range s.masters {
		subs = append(subs, sub)
	}
	s.mu.Unlock()
	for _, sub := range subs {
		if closeErr := sub.Close(); closeErr != nil && !errors.Is(closeErr, redis.ErrClosed) && err == nil {
			err = closeErr
		}
	}
	return err
}
