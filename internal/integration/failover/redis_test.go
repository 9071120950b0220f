package failover_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

// What can happen to Redis.
const (
	oldData  mode = "comes back with old data"
	shortAOF mode = "comes back without the last second"
)

// redisKinds is the work that needs no transactions.
var redisKinds = map[string]func(*worker, context.Context){
	"token":  (*worker).draw,
	"permit": (*worker).take,
	"run":    (*worker).run,
}

func newRedisWorker(t *testing.T, h *history, number int, client redis.UniversalClient) *worker {
	w := &worker{history: h, t: t, number: number}
	backend, err := redisfallback.NewBackend([]redis.UniversalClient{client}, redisfallback.WithNodeTimeout(lease/4))
	must.Succeed(t, err)
	w.locker, err = pglock.NewWithBackend(backend, pglock.WithLease(lease))
	must.Succeed(t, err)
	w.gate, err = semaphore.New(w.locker, pglock.NewKey("gate"), permits)
	must.Succeed(t, err)
	w.job, err = schedule.New(w.locker, pglock.NewKey("job"))
	must.Succeed(t, err)
	return w
}

// redisCampaign is a number of faults of Redis.
type redisCampaign struct {
	campaign
	fault func(m mode) (settled func()) // makes a fault; settled returns when its era is over
}

func newRedisCampaign(t *testing.T, title string, modes ...mode) *redisCampaign {
	c := &redisCampaign{campaign: campaign{T: t, title: title, modes: modes, history: newHistory()}}
	c.tally.Part = title
	return c
}

func (c *redisCampaign) run(times int, client func() redis.UniversalClient) *oracle {
	start := time.Now()
	ctx, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	wanted := map[string]int{"token": 20, "permit": 20, "run": 3}
	for i := range 4 {
		connection := client()
		w := newRedisWorker(c.T, c.history, i, connection)
		c.Cleanup(func() { must.Succeed(c.T, connection.Close()) })
		c.Cleanup(func() {
			closing, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = w.locker.Close(closing)
		})
		for _, do := range redisKinds {
			working.Go(func() { w.work(ctx, do) })
		}
	}
	for i := range times {
		c.await(wanted)
		c.fails(c.modes[i%len(c.modes)])
	}
	c.await(wanted)
	stop()
	working.Wait()
	o := &oracle{T: c.T, history: c.history, tally: &c.tally}
	o.checkRedis()
	c.tally.Operations.Store(int64(c.history.total))
	c.tally.Took = time.Since(start)
	fmt.Print("\n", faults.Table([]*faults.Tally{&c.tally}), "\n", o.report(), "\n")
	return o
}

func (c *redisCampaign) fails(m mode) {
	e := c.history.begins(m, 0, 0)
	settled := c.fault(m)
	c.tally.Trials.Add(1)
	e.promoted = c.history.now()
	c.await(map[string]int{"token": 1})
	e.guarded = c.history.now()
	e.revived = e.guarded
	settled()
	e.end = c.history.now() + lease
}

// checkRedis checks what holds of Redis whatever it forgets: between faults there is one holder, and after one two holders overlap
// for no longer than a lease, unless the old primary answers again. Tokens follow the clock, and grow.
func (o *oracle) checkRedis() {
	o.figures = figures{confirmed: map[string]int{}, lost: map[string]int{}, overlaps: map[mode]time.Duration{}}
	o.checkRuns()
	o.checkTokens()
	if o.figures.goneBack > 0 {
		o.violation("%d tokens were not larger than an earlier one, although all servers have the same clock", o.figures.goneBack)
	}
	o.checkHolds()
	for m, longest := range o.figures.overlaps {
		if m != zombie && longest > lease {
			o.violation("two holders overlapped for %v although Redis %s", longest, m)
		}
	}
}

// TestLongFailoverOfSentinelForgetsAtMostLocks: holders are told within a lease, and tokens grow.
func TestLongFailoverOfSentinelForgetsAtMostLocks(t *testing.T) {
	s := testenv.NewRedisSentinel(t)
	c := newRedisCampaign(t, "Redis, failover by Sentinel", killed, frozen)
	primary, replica := s.Primary, s.Replica
	c.fault = func(m mode) func() {
		old := primary
		if m == killed {
			old.Kill(t)
		} else {
			old.Pause(t)
		}
		c.count(m)
		testenv.WaitUntil(t, "the Sentinels have promoted the replica", func() bool {
			return info(replica, "replication", "role:master")
		})
		return func() {
			if m == killed {
				old.Start(t)
			} else {
				old.Resume(t)
			}
			// On a busy machine the Sentinels may have promoted the other one meanwhile, once more.
			testenv.WaitUntil(t, "one of the two follows the other, and the Sentinels see both", func() bool {
				primary, replica = s.Primary, s.Replica
				if follows(primary) {
					primary, replica = replica, primary
				}
				return follows(replica) && info(primary, "replication", "role:master") && seesOneReplica(s)
			})
		}
	}
	var addrs []string
	for _, sentinel := range s.Sentinels {
		addrs = append(addrs, sentinel.Addr())
	}
	c.run(*promotions, func() redis.UniversalClient {
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Name, SentinelAddrs: addrs})
	})
}

func follows(server *testenv.RedisServer) bool {
	return info(server, "replication", "master_link_status:up")
}

// info reports whether a server says something of itself. Sentinels end all connections to a server whose role they change.
func info(server *testenv.RedisServer, section, text string) bool {
	says, err := server.Do("INFO", section)
	return err == nil && strings.Contains(says, text)
}

// seesOneReplica reports whether no Sentinel has a failover, or a server that is down, in mind.
func seesOneReplica(s *testenv.Sentinel) bool {
	return !slices.ContainsFunc(s.Sentinels, func(sentinel *testenv.RedisServer) bool {
		return !info(sentinel, "sentinel", "status=ok,")
	})
}

// TestLongFailoverToOldDataForgetsAtMostLocks: Redis comes back with a snapshot from before, or without the last second of its
// log, as with appendfsync everysec after a power failure.
func TestLongFailoverToOldDataForgetsAtMostLocks(t *testing.T) {
	c := newRedisCampaign(t, "Redis, old data", oldData, shortAOF)
	server := testenv.NewRedis(t, "appendonly yes", "appendfsync everysec")
	c.fault = func(m mode) func() {
		if m == oldData {
			server.Must(t, "BGREWRITEAOF") // from now on the log begins with a snapshot
			testenv.WaitUntil(t, "the snapshot is written", func() bool {
				return strings.Contains(server.Must(t, "INFO", "persistence"), "aof_rewrite_in_progress:0")
			})
		}
		log, kept := server.Path("appendonlydir"), server.Path("kept")
		must.Succeed(t, os.CopyFS(kept, os.DirFS(log)))
		c.await(map[string]int{"token": 20})
		server.Kill(t)
		c.tally.Kills.Add(1)
		restore(t, log, kept)
		server.Start(t)
		return func() {}
	}
	c.run(*promotions, func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: server.Addr()}) })
}

// restore puts what was kept of the files back, into the same files, which belong to the server's account.
func restore(t *testing.T, log, kept string) {
	files, err := os.ReadDir(log)
	must.Succeed(t, err)
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(kept, file.Name()))
		must.Succeed(t, err)
		must.Succeed(t, os.WriteFile(filepath.Join(log, file.Name()), content, 0o600))
	}
	must.Succeed(t, os.RemoveAll(kept))
}
