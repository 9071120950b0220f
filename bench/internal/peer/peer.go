// Package peer takes and releases locks in all the ways that are compared: with pglock, by hand, and with other libraries,
// each configured as its documentation advises.
package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// Peer locks in one way, as one process would, on connections of its own.
type Peer struct {
	// Lock waits for a lock. Kinds that need a connection or an object for each lock have one for each worker, and may
	// take the worker for the key.
	Lock  func(ctx context.Context, worker int, key int64) (unlock func(context.Context) error, err error)
	Close func() error
}

// Pair locks and unlocks.
func (p *Peer) Pair(ctx context.Context, worker int, key int64) error {
	unlock, err := p.Lock(ctx, worker, key)
	if err != nil {
		return err
	}
	return unlock(ctx)
}

// Addresses are of the servers that peers need. Another process that gets them can open the same peers.
type Addresses struct {
	Postgres, Pooler, Redis     string
	Sentinels, Cluster, Redlock []string

	// Dial is how peers on PostgreSQL connect, if it is not nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `json:"-"`
}

// Open opens the peer of a name.
func Open(ctx context.Context, name string, at Addresses) (*Peer, error) {
	open, known := opens[name]
	if !known {
		return nil, fmt.Errorf("there is no kind of lock called %q", name)
	}
	p, err := open(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// Names of peers.
const (
	Session     = "session lock"
	Transaction = "transaction lock"
	Row         = "row lease"
	RowPooled   = "row lease, pooled"
	Pool        = "plain pgx"
	Connections = "plain connections"
	Table       = "a commit for each"
	Goose       = "goose"
	Redis       = "Redis"
	Sentinel    = "Sentinel"
	Cluster     = "Cluster"
	Redlock3    = "Redlock of 3"
	Redlock5    = "Redlock of 5"
	BareRedis   = "bare commands"
	Rueidislock = "rueidislock"
	Redsync     = "redsync"
	Redislock   = "bsm/redislock"
)

var opens = map[string]func(context.Context, Addresses) (*Peer, error){
	Session: onPostgres(false, pglock.New), Transaction: openTransaction,
	Row: onPostgres(false, rowlock.New), RowPooled: onPostgres(true, rowlock.New),
	Pool: openPlain, Connections: openConnections, Table: openTable,
	Goose: openGoose,
	Redis: openRedis, Sentinel: openSentinel, Cluster: openCluster,
	Redlock3: openRedlock(3), Redlock5: openRedlock(5),
	BareRedis: openBareRedis, Rueidislock: openRueidislock, Redsync: openRedsync, Redislock: openRedislock,
}

// ofLocker returns the peer of a Locker. Its Close closes the Locker, and then what else there is.
func ofLocker(l *pglock.Locker, more ...func() error) *Peer {
	return &Peer{
		Lock: func(ctx context.Context, _ int, key int64) (func(context.Context) error, error) {
			lock, err := l.Lock(ctx, pglock.Int64Key(key))
			if err != nil {
				return nil, err
			}
			return lock.Unlock, nil
		},
		Close: func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			err := l.Close(ctx)
			for _, closeOne := range more {
				err = errors.Join(err, closeOne())
			}
			return err
		},
	}
}

// perWorker makes something for each worker when it is first needed.
type perWorker[T any] struct {
	mu  sync.Mutex
	all map[int]T
}

func (p *perWorker[T]) get(worker int, open func() (T, error)) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, ok := p.all[worker]; ok {
		return v, nil
	}
	v, err := open()
	if err != nil {
		return v, err
	}
	if p.all == nil {
		p.all = map[int]T{}
	}
	p.all[worker] = v
	return v, nil
}

func (p *perWorker[T]) close(one func(T) error) (err error) {
	for _, v := range p.all {
		err = errors.Join(err, one(v))
	}
	return err
}
