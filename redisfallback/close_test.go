package redisfallback_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// A subscription that cannot be dialled does not make Close fail: package redis locks it meanwhile.
func TestFaultsCloseWhileASubscriptionIsDialled(t *testing.T) {
	t.Parallel()
	server := testenv.NewRedis(t)
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	var silent atomic.Bool
	dialling, over := make(chan struct{}, 100), make(chan struct{})
	t.Cleanup(func() { close(over) })
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if silent.Load() {
			dialling <- struct{}{}
			<-over
			return nil, errors.New("the network is silent")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	l := open(t, []redis.UniversalClient{closing(t, redis.NewClient(options))}, nil)
	other := open(t, newClients(t, []*redisserver.Server{server}), nil)
	key := pglock.NewKey("k")
	held := lock(t, other, key)

	waiting, stop := context.WithCancel(t.Context())
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		if _, err := l.Lock(waiting, key); err == nil {
			t.Error("it has the lock")
		}
	}()
	testenv.WaitUntil(t, "the waiter has subscribed", func() bool {
		return testenv.AskRedis(t, server, "CLIENT", "LIST", "TYPE", "pubsub") != "" // the other Locker has no subscription
	})
	silent.Store(true)
	testenv.AskRedis(t, server, "CLIENT", "KILL", "TYPE", "pubsub")
	<-dialling
	stop()
	<-waited
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Error(err)
	}
	unlock(t, held)
}
