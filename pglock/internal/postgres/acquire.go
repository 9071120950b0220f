package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
)

// Acquire implements [driver.Backend].
//
// A try is enough if the key is free; the server refuses a try that would overtake waiters in its queue.
func (b *Backend) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	b.Record(r.Key)
	if !r.Wait {
		return asGrant(b.try(ctx, r))
	}
	g, err := b.wait(ctx, r)
	if err != nil && ctx.Err() != nil && !leavesOpen(err) {
		// The server has just said that the lock is held. So a wait has ended, and the server can be reached, even if ctx
		// ended while a session was being dialled.
		err = context.Cause(ctx)
	}
	return asGrant(g, err)
}

// leavesOpen reports whether the server may still grant what a wait has asked for: a session has not answered.
func leavesOpen(err error) bool {
	_, unsettled := errors.AsType[*driver.UnsettledError](err)
	return unsettled || errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, mux.ErrNoConnection)
}

// asGrant keeps a nil pointer from becoming a Grant that is not nil.
func asGrant(g *mux.Grant, err error) (driver.Grant, error) {
	if err != nil {
		return nil, err
	}
	return g, nil
}

// ours returns the grant of a session behind held.
func ours(held driver.Grant) (*mux.Grant, error) {
	if g, ok := held.(*mux.Grant); ok {
		return g, nil
	}
	return nil, fmt.Errorf("a grant of type %T does not come from the PostgreSQL backend", held)
}

// try takes the lock if that needs no waiting, on a mux session.
func (b *Backend) try(ctx context.Context, r driver.Request) (*mux.Grant, error) {
	g := mux.NewGrant(r.Key.KeyID, r.Shared, r.LossHandler)
	if r.Beside == nil {
		return g, b.mux.Try(ctx, g)
	}
	held, err := ours(r.Beside)
	if err != nil {
		return nil, err
	}
	return b.mux.TryBeside(ctx, g, held)
}

// AcquireTogether implements [driver.Together].
func (b *Backend) AcquireTogether(ctx context.Context, requests []driver.Request) ([]driver.Grant, []error) {
	tries, grants := make([]*mux.Grant, len(requests)), make([]driver.Grant, len(requests))
	for i, r := range requests {
		b.Record(r.Key)
		tries[i] = mux.NewGrant(r.Key.KeyID, r.Shared, r.LossHandler)
	}
	errs := b.mux.TryAll(ctx, tries)
	for i, err := range errs {
		if err == nil {
			grants[i] = tries[i]
		}
	}
	return grants, errs
}

// wait takes the lock when it is its turn: it waits in the server's queue or, without a session for that, tries again
// and again.
func (b *Backend) wait(ctx context.Context, r driver.Request) (*mux.Grant, error) {
	var got *mux.Grant
	var err error
	g, tried, waitErr := b.waits.Wait(ctx, r, func() (over bool) {
		got, err = b.try(ctx, r)
		return !errors.Is(err, driver.ErrNotAcquired)
	})
	if tried {
		return got, err
	}
	return g, waitErr
}

// Holders implements [driver.Backend]. It asks on a session that waits for nothing and carries no lock or, if there is
// none, on a mux session. That must not wait long for VACUUM FULL of a catalog: all its locks would be lost.
func (b *Backend) Holders(ctx context.Context, key driver.Key) ([]driver.Holder, error) {
	select {
	case b.asking <- struct{}{}: // one caller at a time, so that locks are not delayed by many
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-b.asking }()
	text, _, err := b.waits.Call(ctx, lockdb.SetTurn+";"+lockdb.Holders, fmt.Sprintf("{%d}", key.Number), fmt.Sprintf("{%d}", key.Space), "true")
	if err != nil {
		return nil, sqlstate.ExplainOwn(err)
	}
	return decodeHolders(text)
}

// Holders asks db which other sessions hold any of the keys in its database.
func Holders(ctx context.Context, db lockdb.DBTX, keys []driver.Key) ([]driver.Holder, error) {
	var params lockdb.HoldersParams
	for _, key := range keys {
		params.Spaces, params.Numbers = append(params.Spaces, int16(key.Space)), append(params.Numbers, key.Number)
	}
	text, err := lockdb.New(db).Holders(ctx, params)
	if err != nil {
		return nil, err
	}
	return decodeHolders(text)
}

func decodeHolders(text string) (holders []driver.Holder, err error) {
	if err := json.Unmarshal([]byte(text), &holders); err != nil {
		return nil, fmt.Errorf("read the holders of a lock: %w", err)
	}
	for i := range holders {
		holders[i].User, holders[i].Prepared = shorttext.Hex(holders[i].User), shorttext.Hex(holders[i].Prepared)
		holders[i].Self = appname.OfThisProcess(holders[i].Application)
	}
	return holders, nil
}
