package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// deployment says where the servers are, also to another process.
type deployment struct {
	Kind   kind
	URL    string   // of PostgreSQL
	Addrs  []string // of Redis: the node, the nodes, the Sentinels
	Master string   // the name that the Sentinels know
}

type kind string

const (
	onPostgres kind = "postgres"
	onRows     kind = "rows" // behind a pooler of transactions
	onRedis    kind = "redis"
	onSentinel kind = "sentinel"
	onCluster  kind = "cluster"
	onRedlock  kind = "redlock"
)

// client is a Locker with the clients that it needs.
type client struct {
	*pglock.Locker
	clients []redis.UniversalClient
}

// open returns a Locker that reaches its servers by dial.
func (d deployment) open(dial dialer, name string) (*client, error) {
	if d.Kind == onPostgres {
		config, err := pgxpool.ParseConfig(d.URL)
		if err != nil {
			return nil, err
		}
		config.ConnConfig.DialFunc = pgxDialer(dial)
		l, err := pglock.NewWithConfig(config, pglock.WithLease(lease), pglock.WithApplicationName(name))
		return &client{Locker: l}, err
	}
	if d.Kind == onRows {
		config, err := pgxpool.ParseConfig(d.URL)
		if err != nil {
			return nil, err
		}
		config.ConnConfig.DialFunc = pgxDialer(dial)
		l, err := openRows(config, pglock.WithLease(lease), pglock.WithApplicationName(name))
		return &client{Locker: l}, err
	}
	o := &client{clients: d.clients(dial)}
	backend, err := redisfallback.NewBackend(o.clients, redisfallback.WithNodeTimeout(lease/4))
	if err != nil {
		return nil, errors.Join(err, o.closeClients())
	}
	o.Locker, err = pglock.NewWithBackend(backend, pglock.WithLease(lease))
	if err != nil {
		return nil, errors.Join(err, o.closeClients())
	}
	return o, nil
}

// openRows returns a Locker of rows, which needs nothing of the pool but its configuration.
func openRows(config *pgxpool.Config, opts ...pglock.Option) (*pglock.Locker, error) {
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return rowlock.New(pool, opts...)
}

func pgxDialer(dial dialer) func(context.Context, string, string) (net.Conn, error) { return dial }

func (d deployment) clients(dial dialer) (clients []redis.UniversalClient) {
	switch d.Kind {
	case onSentinel:
		return []redis.UniversalClient{redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: d.Master, SentinelAddrs: d.Addrs, Dialer: dial,
		})}
	case onCluster:
		return []redis.UniversalClient{redis.NewClusterClient(&redis.ClusterOptions{Addrs: d.Addrs, Dialer: dial})}
	case onRedis, onRedlock:
		for _, addr := range d.Addrs {
			clients = append(clients, redis.NewClient(&redis.Options{Addr: addr, Dialer: dial}))
		}
		return clients
	default:
		panic(fmt.Sprintf("there is no deployment on %q", d.Kind))
	}
}

func (o *client) closeClients() (err error) {
	for _, client := range o.clients {
		err = errors.Join(err, client.Close())
	}
	return err
}

// lock tries again while the server cannot be reached, since another trial may have frozen it. It calls asking before
// each attempt.
func (o *client) lock(ctx context.Context, key pglock.Key, asking func(), opts ...pglock.LockOption) (*pglock.Lock, error) {
	for {
		asking()
		lock, err := o.Lock(ctx, key, opts...)
		if !errors.Is(err, pglock.ErrUnavailable) || ctx.Err() != nil {
			return lock, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
