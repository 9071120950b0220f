package pglock

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func init() {
	hooks.Backend = func(locker any) (driver.Backend, error) { return locker.(*Locker).openBackend() }
	hooks.Logger = func(locker any) *slog.Logger { return locker.(*Locker).config.env.Logger }
	hooks.WhoHolds = func(locker, keys any, ended bool) any {
		return locker.(*Locker).whoHolds(driverKeys(keys.([]Key)), ended)
	}
	hooks.Watch = func(locker any, w *hooks.Waits) (stop func()) { return locker.(*Locker).watch(w) }
	hooks.Observe = func(ctx context.Context, locker, event any) {
		locker.(*Locker).config.observer.observe(ctx, event.(Event))
	}
	hooks.HandoffLimit = func(locker any) (int, time.Duration) {
		c := locker.(*Locker).config
		return c.handoffs, c.handoffFor
	}
	hooks.Await = func(ctx context.Context, locker, name, keys any, some int) (context.Context, func(), error) {
		return locker.(*Locker).awaitSome(ctx, name.(Key), keys.([]Key), some)
	}
	hooks.HandOff = func(lock any, to context.Context, opts any) (any, func(), error) {
		return lock.(*Lock).handOff(to, opts.([]LockOption))
	}
	hooks.WithUse = func(use any) any {
		u := use.(Use)
		return lockOption(func(c *lockConfig) error {
			c.use = &u
			return nil
		})
	}
	hooks.ReadLockOptions = func(opts any) (hooks.Settings, error) {
		var c lockConfig
		err := c.read(opts.([]LockOption))
		return hooks.Settings{
			Shared: c.shared, Bounded: c.bounded, MaxWait: c.maxWait, MaxHold: c.maxHold, Outage: c.outage,
		}, err
	}
	hooks.HoldersTx = func(ctx context.Context, tx pgx.Tx, keys any) ([]Holder, error) {
		return holdersTx(ctx, tx, keys.([]Key))
	}
	hooks.ReadTxOptions = func(opts any) (hooks.Settings, error) {
		c, err := newTxConfig(opts.([]TxOption))
		return hooks.Settings{
			Shared: c.shared, Bounded: c.bounded, MaxWait: c.maxWait, AllowStale: c.allowStale, AllowStandby: c.allowStandby,
			Observer: c.observer,
		}, err
	}
	hooks.Process = func(lockers ...any) {
		graph := newWaitGraph()
		for _, l := range lockers {
			l.(*Locker).graph, l.(*Locker).lookout.graph = graph, graph
		}
	}
	hooks.InvalidKey = func(why string) any { return Key{k: driver.Key{Name: why}} }
}

func (l *Locker) openBackend() (driver.Backend, error) {
	if err := l.checkOpen(); err != nil {
		return nil, err
	}
	return l.backend, nil
}
