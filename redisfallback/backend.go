package redisfallback

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

const (
	defaultLease = 15 * time.Second
	maxTimeout   = 4 * time.Second
	offerFor     = 2 * time.Second
)

// backend implements [driver.Backend] and, as listed below, optional interfaces on a quorum of nodes, which may be one.
type backend struct {
	prefix  string
	nodes   []*node
	quorum  int
	timeout time.Duration // of one round trip to one node
	env     driver.Config
	cluster bool
	locker  string // identifies this Locker, in the names of its waiters
	serial  atomic.Uint64
	renewer renewer
	waiters waiters

	// Times as the scripts take them, in milliseconds.
	leaseMillis, offerMillis int64

	mu     sync.Mutex
	runIDs map[*node]string // of the servers, each process of a server has another one
}

func newBackend(clients []redis.UniversalClient, o config) *backend {
	b := &backend{prefix: o.prefix, timeout: o.timeout, quorum: len(clients)/2 + 1, locker: rand.Text(), runIDs: map[*node]string{}}
	for _, client := range clients {
		n := newNode(client, len(clients) > 1)
		n.introduce = func() error { return b.introduce(n) }
		b.nodes = append(b.nodes, n)
	}
	b.renewer.backend, b.waiters.backend = b, b
	if _, b.cluster = clients[0].(*redis.ClusterClient); b.cluster {
		b.locker = uncounted + b.locker
	}
	return b
}

// place is a server process, and the names that a backend's keys have there.
type place struct {
	address, runID, prefix string
	db                     int
}

// Place implements [hooks.Placed]. It is known of one server that its client has been introduced to.
func (b *backend) Place(driver.Grant) any {
	client, single := b.nodes[0].client.(*redis.Client)
	b.mu.Lock()
	defer b.mu.Unlock()
	if runID := b.runIDs[b.nodes[0]]; single && len(b.nodes) == 1 && runID != "" {
		return place{client.Options().Addr, runID, b.prefix, client.Options().DB}
	}
	return nil
}

// Start implements [driver.Backend].
func (b *backend) Start(env driver.Config) error {
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

// LocksByName implements [driver.NamedLocks].
func (b *backend) LocksByName() bool { return true }

// redlock reports whether the backend has several nodes.
func (b *backend) redlock() bool { return len(b.nodes) > 1 }

// trusted is how long a lease is valid, counted from just before the request. It allows for clocks whose speeds differ
// by one percent, and for Redis rounding to milliseconds.
func (b *backend) trusted() time.Duration { return b.env.Lease - b.env.Lease/100 - 2*time.Millisecond }

// Ping implements [driver.Backend]. It checks the servers anew.
func (b *backend) Ping(ctx context.Context) error {
	for _, n := range b.nodes {
		n.introduced.Store(false)
	}
	t, err := b.roundUntil(ctx, b.calls(nil, nil, "ping"), (*tally).over)
	if err != nil {
		return err
	}
	for i, vote := range t.votes { // what no retry helps against, even if there is a quorum
		if errors.Is(vote.err, driver.ErrUnsupported) || errors.Is(vote.err, driver.ErrStandby) && !t.nodes[i].follows {
			return t.nodes[i].explain(vote.err)
		}
	}
	return t.result(driver.ErrUnavailable)
}

// Release implements [driver.Backend].
func (b *backend) Release(_ context.Context, held driver.Grant) error {
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
	began := driver.Now()
	first := b.releaseWithin(within, g)
	if !errors.Is(first, driver.ErrUnavailable) {
		return first
	}
	second := b.releaseWithin(within-driver.Now().Sub(began), g)
	if errors.Is(second, driver.ErrLost) && driver.Now() < g.Deadline() {
		return nil
	}
	return second
}

func (b *backend) releaseWithin(d time.Duration, g *grant) error {
	ctx := context.Background()
	if b.timeout > d { // else a round ends early enough
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	waits := g.attempt != 0 // on nodes that refused it, it is still in line
	return b.ask(ctx, b.releaseCalls(g, b.offerMillis, waits))
}

// Check implements [driver.Backend]. To renew a lease is to ask whether it is held.
func (b *backend) Check(ctx context.Context, held driver.Grant) error {
	g, err := ours(held)
	if err != nil {
		return err
	}
	return b.ask(ctx, b.renewCalls(g))
}

// ask sends the calls, and returns an error unless a quorum says yes.
func (b *backend) ask(ctx context.Context, calls []call) error {
	t, err := b.round(ctx, calls)
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	switch {
	case t.hasQuorum():
		return nil
	case t.gone():
		return errGone
	}
	if err = t.unavailable(); errors.Is(err, driver.ErrDenied) { // so whether the lock is held is unknown
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return err
}

// Close implements [driver.Backend].
func (b *backend) Close(ctx context.Context) error {
	err := errors.Join(b.renewer.close(ctx), b.waiters.close(ctx))
	for _, n := range b.nodes {
		n.drain(ctx)
	}
	return err
}

var _ interface {
	driver.Backend
	driver.Fencer
	driver.NamedLocks
	hooks.Placed
	runstore.Store
} = (*backend)(nil)
