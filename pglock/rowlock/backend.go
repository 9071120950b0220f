package rowlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/internal/combine"
	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/runstore"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/between"
	"github.com/pglock-toolkit/pglock/pglock/internal/link"
	"github.com/pglock-toolkit/pglock/pglock/internal/recorder"
)

// backend implements [driver.Backend] with rows.
type backend struct {
	pool            *pgxpool.Config // the application's
	application     string
	calls, renewals *link.Link
	*recorder.Recorder
	env        driver.Config
	config     hooks.PostgresConfig
	combined   *combine.Queue[*call]
	refused    atomic.Pointer[refusal] // nil at first
	background group
	life       context.Context // ends with Close
	end        context.CancelFunc
	draining   chan struct{} // closed when no more is acquired
	drain      sync.Once
	server     atomic.Value // a serverName: where the last holder was opened

	mu     sync.Mutex // held while a holder is opened
	holder *holder    // the last one; nil at first
}

func newBackend(pool *pgxpool.Config) *backend {
	b := &backend{pool: pool, draining: make(chan struct{})}
	b.combined = newCalls(b)
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// connections are there for two statements of calls, and one that polls, checks or settles.
const connections = maxSenders + 1

// Start implements [driver.Backend].
func (b *backend) Start(env driver.Config) error {
	b.env = env
	config := link.Config{
		Pool: link.Pool(b.pool, b.config.Application, false), Connections: connections, Owners: b.config.TrustedOwners, Within: b.callWithin(),
	}
	b.application, _ = appname.Split(config.Pool.ConnConfig.RuntimeParams["application_name"])
	var errs [3]error
	b.calls, errs[0] = link.New(config)
	b.Recorder, errs[1] = recorder.New(config, b.config.RecordNames, env.Logger)
	config.Connections = 1
	b.renewals, errs[2] = link.New(config)
	return errors.Join(errs[:]...)
}

// Configure implements [hooks.PostgresOptions].
func (b *backend) Configure(c hooks.PostgresConfig, given []string) (refused []string) {
	b.config = c
	return slices.DeleteFunc(given, func(name string) bool {
		return name == "WithTrustedOwner" || name == "WithApplicationName" || name == "WithNames"
	})
}

// callWithin is how long the answer to a statement may take.
func (b *backend) callWithin() time.Duration { return min(max(b.env.Lease/3, minCall), maxCall) }

const (
	minCall = 2 * time.Second
	maxCall = 5 * time.Second
)

// current returns the holder of this process, and makes one if there is none.
func (b *backend) current(ctx context.Context) (*holder, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holder != nil && !b.holder.isOver() {
		return b.holder, nil
	}
	h, err := b.open(ctx)
	if errors.Is(err, driver.ErrPooler) { // or a failover came in between: new connections show which
		b.calls.Reset()
		b.renewals.Reset()
		h, err = b.open(ctx)
	}
	if err != nil {
		return nil, err
	}
	b.holder = h
	return h, nil
}

// id returns the id of the present holder, if there is one.
func (b *backend) id() pgtype.UUID {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holder == nil {
		return pgtype.UUID{Valid: true}
	}
	return b.holder.id
}

// Ping implements [driver.Backend]. It sends a call that asks for nothing.
func (b *backend) Ping(ctx context.Context) error {
	c := b.submit(&call{})
	if err := b.await(ctx, c); err != nil {
		return err
	}
	if c.err != nil {
		return c.err
	}
	return b.Recorder.Ping(ctx)
}

// await waits for the answer to c. After the end of ctx a call that has been sent is given some time. The error is that of
// ctx; c.done says whether c has been answered all the same.
func (b *backend) await(ctx context.Context, c *call) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	if b.combined.Withdraw(c) {
		c.finish(context.Cause(ctx))
		return context.Cause(ctx)
	}
	select {
	case <-c.done:
		return nil
	case <-time.After(answerWithin):
		return context.Cause(ctx)
	}
}

// answerWithin is how long an answer is waited for after the end of a context.
const answerWithin = time.Second

// Check implements [driver.Backend].
func (b *backend) Check(ctx context.Context, held driver.Grant) error {
	g, err := ours(held)
	if err != nil {
		return err
	}
	if g.holder.isOver() {
		return g.holder.lostError()
	}
	ctx, cancel := context.WithTimeout(ctx, b.callWithin())
	defer cancel()
	holds, err := link.Ask(ctx, b.calls, func(ctx context.Context, q *lockdb.Queries) (bool, error) {
		return q.HoldsLeases(ctx, lockdb.HoldsLeasesParams{
			Holder: g.holder.id, Shared: g.shared, Space: int16(g.key.Space), Number: g.key.Number, Generation: g.generation,
		})
	})
	switch {
	case err != nil && errors.Is(err, driver.ErrUnavailable):
		return err
	case err != nil: // so whether the lock is held is unknown
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	case !holds:
		return driver.Lost(driver.LostGone)
	}
	return nil
}

// Holders implements [driver.Backend].
func (b *backend) Holders(ctx context.Context, k driver.Key) ([]driver.Holder, error) {
	holders, _, err := b.ahead(ctx, k)
	return holders, err
}

// FirstInLine implements [hooks.Queue].
func (b *backend) FirstInLine(ctx context.Context, k driver.Key) (*driver.Holder, error) {
	_, first, err := b.ahead(ctx, k)
	return first, err
}

// ahead returns who holds a key, or else who is the first in its queue.
func (b *backend) ahead(ctx context.Context, k driver.Key) (holders []driver.Holder, first *driver.Holder, err error) {
	params := lockdb.LeaseHoldersParams{Holder: b.id(), Space: int16(k.Space), Number: k.Number}
	rows, err := link.Ask(ctx, b.calls, func(ctx context.Context, q *lockdb.Queries) ([]lockdb.LeaseHoldersRow, error) {
		return q.LeaseHolders(ctx, params)
	})
	for _, r := range rows {
		h := driver.Holder{
			Shared: r.Shared, Self: r.Self, User: r.Role, Application: r.Application,
			Client: fmt.Sprintf("%s, process %d", r.Host, r.Pid), SessionSince: time.UnixMicro(r.ProcessUs), Since: time.UnixMicro(r.SinceUs),
		}
		if r.Host == "" {
			h.Client = ""
		}
		if !r.Waits {
			holders = append(holders, h)
		} else if len(holders) == 0 {
			first = &h
		}
	}
	return holders, first, err
}

// Fence implements [driver.Fencer]. The first token of a grant is its generation. A lock that was passed on within the process
// needs another one. Of several grants the largest counts.
func (b *backend) Fence(ctx context.Context, grants []driver.Grant) (largest int64, err error) {
	for _, held := range grants {
		g, err := ours(held)
		if err != nil {
			return 0, err
		}
		token, err := b.fence(ctx, g)
		if err != nil {
			return 0, err
		}
		largest = max(largest, token)
	}
	return largest, nil
}

func (b *backend) fence(ctx context.Context, g *grant) (token int64, err error) {
	if g.holder.isOver() {
		return 0, g.holder.lostError()
	}
	if !g.fenced.Swap(true) {
		return g.generation, nil
	}
	token, err = link.Ask(ctx, b.calls, func(ctx context.Context, q *lockdb.Queries) (int64, error) {
		return q.FenceLease(ctx, lockdb.FenceLeaseParams{
			Holder: g.holder.id, Shared: g.shared, Space: int16(g.key.Space), Number: g.key.Number, Generation: g.generation,
		})
	})
	if err == nil && token == 0 {
		err = driver.Lost(driver.LostGone)
	}
	return token, err
}

// Drain implements [driver.Drainer].
func (b *backend) Drain() { b.drain.Do(func() { close(b.draining) }) }

// Close implements [driver.Backend].
func (b *backend) Close(ctx context.Context) error {
	b.Drain()
	b.mu.Lock()
	h := b.holder
	b.mu.Unlock()
	if h != nil {
		h.lose(driver.LostClosed, driver.ErrClosed)
		select {
		case <-h.told:
		case <-ctx.Done():
		}
	}
	b.end()
	b.background.close()
	b.combined.Wait(context.WithoutCancel(ctx)) // what is under way fails
	b.calls.Close(ctx)
	b.renewals.Close(ctx)
	b.Recorder.Close(ctx)
	return nil
}

var _ interface {
	driver.Backend
	driver.Fencer
	driver.TxGuard
	driver.Drainer
	hooks.Placed
	hooks.Recorder
	hooks.Queue
	hooks.PostgresOptions
	runstore.Store
	between.Backend
} = (*backend)(nil)
