package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/bench/internal/redispeer"
	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

func openPeer(name string) func(context.Context, *lab) (*locker, error) {
	return func(_ context.Context, l *lab) (*locker, error) {
		p, err := redispeer.Open[name](l.redis.Addr())
		if err != nil {
			return nil, err
		}
		return named(p), nil
	}
}

func openValkey(_ context.Context, l *lab) (*locker, error) {
	const program = "valkey-server"
	if _, err := exec.LookPath(program); err != nil {
		return nil, fmt.Errorf("%w: no %s", errMissing, program)
	}
	s, err := l.once(program, func() (*redisserver.Server, error) { return redisserver.StartProgram(program) })
	if err != nil {
		return nil, err
	}
	p, err := redispeer.Open[redispeer.Ours](s.Addr())
	if err != nil {
		return nil, err
	}
	return named(p), nil
}

// onClients returns a locker of redisfallback, which closes its clients.
func onClients(clients ...redis.UniversalClient) (*locker, error) {
	open := redisfallback.NewRedlock
	if len(clients) == 1 {
		open = func(all []redis.UniversalClient, opts ...pglock.Option) (*pglock.Locker, error) {
			return redisfallback.New(all[0], opts...)
		}
	}
	l, err := open(clients)
	if err != nil {
		return nil, err
	}
	var closes []func() error
	for _, client := range clients {
		closes = append(closes, client.Close)
	}
	return named(redispeer.Of(l, closes...)), nil
}

func openRedlock(n int) func(context.Context, *lab) (*locker, error) {
	return func(_ context.Context, l *lab) (*locker, error) {
		var clients []redis.UniversalClient
		for i := range n {
			s, err := l.shared("redlock", i)
			if err != nil {
				return nil, err
			}
			clients = append(clients, redis.NewClient(&redis.Options{Addr: s.Addr()}))
		}
		return onClients(clients...)
	}
}

// openCluster uses a Cluster of three masters.
func openCluster(ctx context.Context, l *lab) (*locker, error) {
	const masters = 3
	_, made := l.servers["cluster 0"]
	var servers []*redisserver.Server
	var addresses []string
	for i := range masters {
		s, err := l.shared("cluster", i, "cluster-enabled yes")
		if err != nil {
			return nil, err
		}
		servers, addresses = append(servers, s), append(addresses, s.Addr())
	}
	if !made {
		if err := redisserver.JoinCluster(servers...); err != nil {
			return nil, err
		}
		err := until(ctx, "the Cluster is ready", func() (bool, error) { return redisserver.ClusterReady(servers...) })
		if err != nil {
			return nil, err
		}
	}
	return onClients(redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses}))
}

// openSentinel uses a primary with a replica, and three Sentinels that watch over them.
func openSentinel(ctx context.Context, l *lab) (*locker, error) {
	const name = "locks"
	primary, err := l.shared("sentinel", 0)
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(primary.Port())
	if _, err := l.shared("sentinel", 1, "replicaof 127.0.0.1 "+port); err != nil {
		return nil, err
	}
	err = until(ctx, "the replica follows", func() (bool, error) {
		info, err := primary.Do("INFO", "replication")
		return strings.Contains(info, "connected_slaves:1"), err
	})
	if err != nil {
		return nil, err
	}
	var addresses []string
	for i := range 3 {
		s, err := l.once(fmt.Sprintf("sentinels %d", i), func() (*redisserver.Server, error) {
			return redisserver.StartSentinel(fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s 2", name, port))
		})
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, s.Addr())
	}
	return onClients(redis.NewFailoverClient(&redis.FailoverOptions{MasterName: name, SentinelAddrs: addresses}))
}

// until waits until something has come true.
func until(ctx context.Context, what string, come func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if ok, err := come(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// shared starts a Redis for all lockers of a kind, when the first of them needs it.
func (l *lab) shared(kind string, i int, directives ...string) (*redisserver.Server, error) {
	return l.once(fmt.Sprintf("%s %d", kind, i), func() (*redisserver.Server, error) { return redisserver.Start(directives...) })
}

// once returns the server of a name, which start starts at the first call. It is stopped with the lab.
func (l *lab) once(name string, start func() (*redisserver.Server, error)) (*redisserver.Server, error) {
	if s, ok := l.servers[name]; ok {
		return s, nil
	}
	s, err := start()
	if err != nil {
		return nil, err
	}
	l.later(s.Stop)
	if l.servers == nil {
		l.servers = map[string]*redisserver.Server{}
	}
	l.servers[name] = s
	return s, nil
}
