package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/bench/internal/peer"
	"github.com/pglock-toolkit/pglock/internal/redisserver"
)

// StartDeployments also starts the other deployments of Redis that locks can be kept on: Sentinel, Cluster, five
// independent servers, and a Valkey if the machine has it.
func (l *Lab) StartDeployments(ctx context.Context) error {
	for _, start := range []func(context.Context) error{l.startSentinels, l.startCluster, l.startRedlock} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startSentinels starts a primary with a replica, and three Sentinels that watch over them.
func (l *Lab) startSentinels(ctx context.Context) error {
	primary, err := l.startRedis()
	if err != nil {
		return err
	}
	port := strconv.Itoa(primary.Port())
	if _, err := l.startRedis("replicaof 127.0.0.1 " + port); err != nil {
		return err
	}
	err = until(ctx, "the replica follows", func() (bool, error) {
		info, err := primary.Do("INFO", "replication")
		return strings.Contains(info, "connected_slaves:1"), err
	})
	if err != nil {
		return err
	}
	for range 3 {
		s, err := l.keep(redisserver.StartSentinel(fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s 2", peer.SentinelName, port)))
		if err != nil {
			return err
		}
		l.At.Sentinels = append(l.At.Sentinels, s.Addr())
	}
	return nil
}

func (l *Lab) startCluster(ctx context.Context) error {
	var servers []*redisserver.Server
	for range 3 {
		s, err := l.startRedis("cluster-enabled yes")
		if err != nil {
			return err
		}
		servers, l.At.Cluster = append(servers, s), append(l.At.Cluster, s.Addr())
	}
	if err := redisserver.JoinCluster(servers...); err != nil {
		return err
	}
	return until(ctx, "the Cluster is ready", func() (bool, error) { return redisserver.ClusterReady(servers...) })
}

func (l *Lab) startRedlock(context.Context) error {
	for range 5 {
		s, err := l.startRedis()
		if err != nil {
			return err
		}
		l.At.Redlock = append(l.At.Redlock, s.Addr())
	}
	return nil
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
