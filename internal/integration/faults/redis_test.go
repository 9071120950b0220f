package faults_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func redisOne(t *testing.T, tally *faults.Tally) {
	servers := startRedis(t, 1)
	faultsOnRedis(t, tally, deployment{Kind: onRedis, Addrs: addrs(servers)}, frozenServers(servers, false))
}

func redisSentinel(t *testing.T, tally *faults.Tally) {
	s := testenv.NewRedisSentinel(t)
	d := deployment{Kind: onSentinel, Addrs: addrs(s.Sentinels), Master: s.Name}
	faultsOnRedis(t, tally, d, frozenServers(s.Sentinels, true)) // if a primary froze there would be a failover, which may lose locks
}

func redisCluster(t *testing.T, tally *faults.Tally) {
	servers := testenv.NewRedisCluster(t, 3)
	faultsOnRedis(t, tally, deployment{Kind: onCluster, Addrs: addrs(servers)}, frozenServers(servers, true))
}

func redlock(t *testing.T, tally *faults.Tally) {
	servers := startRedis(t, 5)
	d := deployment{Kind: onRedlock, Addrs: addrs(servers)}
	faultsOnRedis(t, tally, d, frozenServers(servers[:2], true), killedServers(servers[2:])) // at most one of each
}

func startRedis(t *testing.T, n int) (servers []*redisserver.Server) {
	t.Helper()
	for range n {
		servers = append(servers, testenv.NewRedis(t))
	}
	return servers
}

func addrs(servers []*redisserver.Server) (all []string) {
	for _, server := range servers {
		all = append(all, server.Addr())
	}
	return all
}

// silent discards go-redis's messages about failed connections, of which there are many here.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// faultsOnRedis runs the trials on one deployment: the network is cut, servers fail, processes freeze and die.
func faultsOnRedis(t *testing.T, tally *faults.Tally, d deployment, ofServers ...fault) {
	const inTrials, inProcesses = 140, 60
	what := append(blackHoles(true), ofServers...)
	trials := scaled(inTrials, len(what))
	processes := scaled(inProcesses/lockersOfAChild, 1)
	var all []func()
	for i := range trials {
		s := scene{deployment: d, tally: tally, distance: time.Duration(i%2) * time.Millisecond}
		all = append(all, func() { s.inTrial(t, what[i%len(what)]) })
	}
	for i := range processes {
		all = append(all, func() { scene{deployment: d, tally: tally}.inChild(t, i%3 == 2) })
	}
	atOnce(sideBySide, all)
}

// frozenServers stops one server at a time for longer than a lease. The others keep the locks if they can work without
// it.
func frozenServers(servers []*redisserver.Server, keeps bool) fault {
	var one sync.Mutex
	return fault{
		what: "a server is frozen", frees: !keeps, keeps: keeps,
		make: func(tr *trial) {
			one.Lock()
			server := servers[rand.IntN(len(servers))]
			tr.tally.Freezes.Add(1)
			must.Succeed(tr, server.Pause())
			var thawing sync.WaitGroup
			thawing.Go(func() {
				time.Sleep(lease + rand.N(lease))
				must.Succeed(tr, server.Resume())
			})
			tr.undone = func() { thawing.Wait(); one.Unlock() }
		},
		undo: func(tr *trial) { tr.undone() },
	}
}

// killedServers kills one of many servers, which forgets everything, and starts it again when all locks that it may
// have had have expired, as the documentation requires.
func killedServers(servers []*redisserver.Server) fault {
	var one sync.Mutex
	return fault{
		what: "a server is killed", keeps: true,
		make: func(tr *trial) {
			one.Lock()
			server := servers[rand.IntN(len(servers))]
			tr.tally.Kills.Add(1)
			must.Succeed(tr, server.Kill())
			tr.undone = func() {
				time.Sleep(lease)
				must.Succeed(tr, server.Up(context.Background()))
				one.Unlock()
			}
		},
		undo: func(tr *trial) { tr.undone() },
	}
}
