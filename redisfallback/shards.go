package redisfallback

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// shards are a Locker's subscriptions on a Cluster whose servers have sharded pub/sub: a message then goes to the
// server of its slot instead of to all (https://redis.io/docs/latest/develop/interact/pubsub/#sharded-pubsub). There is
// a channel for each slot with waiters, and a connection for each master that has such a slot. Package redis
// resubscribes a connection's channels only if they are all in one slot, so that is done here.
type shards struct {
	waiters *waiters
	cluster *redis.ClusterClient
	used    atomic.Bool
	known   atomic.Bool // whether sharded pub/sub exists has been found out

	mu      sync.Mutex
	slots   map[string]string        // the address of the subscribed master by slot tag; "" while there is none
	masters map[string]*redis.PubSub // by address
}

// probe finds out once whether the servers have sharded pub/sub. If they do not answer, the next call asks again.
func (s *shards) probe(ctx context.Context) {
	if s.cluster == nil || s.known.Load() {
		return
	}
	b := s.waiters.backend
	calls := b.calls(nil, nil, "command", "info", "spublish")
	if t, err := b.round(ctx, calls); err != nil || t.failed > 0 {
		return
	}
	if infos, ok := calls[0].value.([]any); ok && len(infos) == 1 && infos[0] != nil {
		s.used.Store(true)
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
	if _, ok := s.slots[tag]; !ok && s.waiters.ctx.Err() == nil {
		s.slots[tag] = ""
		s.waiters.stopped.Go(func() { s.subscribe(tag) })
	}
}

// subscribe subscribes at the slot's master; receive gets the answer.
func (s *shards) subscribe(tag string) {
	ctx := s.waiters.ctx
	master, err := s.cluster.MasterForKey(ctx, s.channel(tag))
	if err == nil {
		if sub := s.master(tag, master); sub != nil {
			err = sub.SSubscribe(ctx, s.channel(tag))
		}
	}
	if err != nil {
		s.waiters.rest()
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
		if !s.waiters.keep(sub) {
			_ = sub.Close() // it has no connection yet
			return nil
		}
		s.masters[addr] = sub
		s.waiters.stopped.Go(func() {
			if !s.waiters.receive(sub, s.handle) {
				s.waiters.rest()
			}
			s.drop(addr, sub)
		})
	}
	return sub
}

func (s *shards) handle(message any) {
	switch m := message.(type) {
	case *redis.Message:
		s.waiters.wake(m.Payload)
	case *redis.Subscription:
		tag := strings.TrimSuffix(m.Channel, "wake:"+s.waiters.backend.locker())
		if m.Kind == "sunsubscribe" { // the slot has moved to another master
			s.cluster.ReloadState(s.waiters.ctx)
			s.forget(tag)
			return
		}
		s.waiters.wakeAll(tag) // earlier messages are lost
	}
}

// forget wakes the waiters of a slot, which subscribe again where it is now.
func (s *shards) forget(tag string) {
	s.mu.Lock()
	delete(s.slots, tag)
	s.mu.Unlock()
	s.waiters.wakeAll(tag)
}

// drop closes a connection that failed or whose master has lost a slot.
func (s *shards) drop(addr string, sub *redis.PubSub) {
	s.waiters.end(sub)
	s.cluster.ReloadState(s.waiters.ctx)
	var lost []string
	s.mu.Lock()
	if s.masters[addr] == sub {
		delete(s.masters, addr)
	}
	for tag, at := range s.slots {
		if at == addr {
			lost = append(lost, tag)
		}
	}
	s.mu.Unlock()
	for _, tag := range lost {
		s.forget(tag)
	}
}
