package redisfallback

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

const (
	defaultLease = 15 * time.Second
	maxTimeout   = 4 * time.Second
	offerFor     = 2 * time.Second
)

// backend implements [driver.Backend] and [driver.Fencer] on a quorum of nodes, which may be one.
type backend struct {
	prefix   string
	nodes    []*node
	quorum   int
	timeout  time.Duration // of one round trip to one node
	env      driver.Config
	instance string // identifies this Locker; see locker
	serial   atomic.Uint64
	sharded  atomic.Bool // waiters are woken by sharded pub/sub
	renewer  renewer
	waiters  waiters
	census   census

	// Times as the scripts take them, in milliseconds.
	leaseMillis, offerMillis int64
}

func newBackend(clients []redis.UniversalClient, o options) *backend {
	b := &backend{prefix: o.prefix, timeout: o.timeout, quorum: len(clients)/2 + 1, instance: rand.Text()}
	for _, client := range clients {
		n := newNode(client, len(clients) > 1)
		n.identify = func() error { return b.identify(n) }
		b.nodes = append(b.nodes, n)
	}
	b.renewer.backend, b.waiters.backend, b.waiters.shards.waiters = b, b, &b.waiters
	if cluster, ok := clients[0].(*redis.ClusterClient); ok && !b.redlock() {
		b.waiters.shards.cluster = cluster
		b.instance = uncounted + b.instance
	}
	return b
}

// Start implements [driver.Backend].
func (b *backend) Start(env driver.Config) error {
	if env.RecordNames {
		return fmt.Errorf("%w: WithNames is for PostgreSQL; Redis knows locks by their names", driver.ErrUnsupported)
	}
	if env.Lease == 0 {
		env.Lease = defaultLease
	}
	b.env = env
	b.leaseMillis, b.offerMillis = env.Lease.Milliseconds(), min(offerFor, env.Lease).Milliseconds()
	if b.redlock() {
		b.offerMillis = releaseWake
	}
	switch {
	case b.timeout > 0:
	case b.redlock():
		b.timeout = env.Lease / 20
	default:
		b.timeout = min(maxTimeout, env.Lease/3)
	}
	for _, n := range b.nodes {
		n.limit(b.timeout)
	}
	return nil
}

// What the scripts accept instead of an offer's duration.
const (
	releaseWake   = 0  // wakes the waiters, which then ask
	releaseSilent = -1 // wakes no waiter: the caller asks again itself
)

// LocksByName implements [driver.NamedLocks].
func (b *backend) LocksByName() bool { return true }

// locker is the Locker's name in the names of its waiters.
func (b *backend) locker() string {
	if b.sharded.Load() {
		return shardMark + b.instance
	}
	return b.instance
}

// redlock reports whether the backend has several nodes.
func (b *backend) redlock() bool { return len(b.nodes) > 1 }

// trusted is how long a lease is valid, counted from just before the request. It allows for clocks whose speeds differ
// by one percent, and for Redis rounding to milliseconds.
func (b *backend) trusted() time.Duration { return b.env.Lease - b.env.Lease/100 - 2*time.Millisecond }

// Ping implements [driver.Backend].
func (b *backend) Ping(ctx context.Context) error {
	if b.redlock() {
		return b.reachAll(ctx)
	}
	b.nodes[0].identified.Store(false)
	t, err := b.round(ctx, b.calls(nil, nil, "ping"))
	if err != nil {
		return err
	}
	return t.result(driver.ErrUnavailable)
}

// calls makes the same call for every node: a script or a plain command.
func (b *backend) calls(s *script, keys []string, args ...any) []call {
	return b.ask(request{script: s, keys: keys, args: args}, nil)
}

// ask makes the same call for every node; singleKey gives the form to send while a slot migrates.
func (b *backend) ask(r request, singleKey func(request) request) []call {
	calls := make([]call, len(b.nodes))
	for i := range calls {
		calls[i].request, calls[i].singleKey = r, singleKey
	}
	return calls
}

// Release implements [driver.Backend].
func (b *backend) Release(ctx context.Context, held driver.Grant) error {
	g, err := ours(held)
	if err != nil {
		return err
	}
	if !b.renewer.remove(g) {
		return g.lostError()
	}
	return b.release(g, driver.ReleaseTimeout)
}

// release releases what g holds. If the answer is lost it asks again. A lock that is gone by then was released by the
// first request, provided that its lease has not expired.
func (b *backend) release(g *grant, within time.Duration) error {
	deadline := driver.Now().Add(within)
	calls := func(g *grant, i int) []call { return b.releaseCalls(g, i, b.offerMillis) }
	first := b.eachWithin(within, g, calls)
	if !errors.Is(first, driver.ErrUnavailable) {
		return first
	}
	second := b.eachWithin(deadline.Sub(driver.Now()), g, calls)
	if errors.Is(second, driver.ErrLost) && driver.Now() < g.Deadline() {
		return nil
	}
	return second
}

// eachWithin is each with a time limit. It needs no context if the limit of a round trip is shorter.
func (b *backend) eachWithin(d time.Duration, g *grant, ask func(*grant, int) []call) error {
	if b.timeout <= d {
		return b.each(context.Background(), g, ask)
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return b.each(ctx, g, ask)
}

// Check implements [driver.Backend].
func (b *backend) Check(ctx context.Context, held driver.Grant) error {
	g, err := ours(held)
	if err != nil {
		return err
	}
	return b.each(ctx, g, b.checkCalls)
}

// each sends the calls for every key of g concurrently and joins the errors.
func (b *backend) each(ctx context.Context, g *grant, ask func(*grant, int) []call) error {
	held := g.holdings()
	if len(held) == 1 {
		return b.one(ctx, ask(g, 0))
	}
	errs := make(chan error, len(held))
	for i := range held {
		go func() { errs <- b.one(ctx, ask(g, i)) }()
	}
	var err error
	for range held {
		err = errors.Join(err, <-errs)
	}
	return err
}

func (b *backend) one(ctx context.Context, calls []call) error {
	t, err := b.round(ctx, calls)
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	if err = t.result(errGone); errors.Is(err, driver.ErrDenied) { // so whether the lock is held is unknown
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return err
}

// Close implements [driver.Backend].
func (b *backend) Close(ctx context.Context) error {
	err := errors.Join(b.renewer.close(ctx), b.waiters.close(ctx))
	for _, n := range b.nodes {
		n.drain(ctx)
		err = errors.Join(err, n.closeDirects())
	}
	return err
}

// ours returns the grant behind held.
func ours(held driver.Grant) (*grant, error) {
	if g, ok := held.(*grant); ok {
		return g, nil
	}
	return nil, fmt.Errorf("a grant of type %T does not come from the Redis backend", held)
}

var _ interface {
	driver.Backend
	driver.Fencer
	driver.NamedLocks
} = (*backend)(nil)
