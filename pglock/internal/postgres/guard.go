package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// GuardTx implements [driver.TxGuard]. See queries/guard.sql. It is one round trip of tx; the first one for a session
// costs another, on that session.
func (b *Backend) GuardTx(ctx context.Context, tx pgx.Tx, held driver.Grant) error {
	g, err := ours(held)
	if err != nil {
		return err
	}
	object, err := g.identity(ctx)
	if err != nil {
		return err
	}
	outcome, err := lockdb.New(tx).GuardTx(ctx, lockdb.GuardTxParams{
		Shared: g.shared, Companions: g.companions(), Class: lockkeys.IdentityClass, Object: object,
	})
	switch {
	case serverCode(err) == codeUndefinedObject && strings.Contains(err.Error(), lostSetting):
		if err := b.Check(ctx, g); err != nil {
			return err
		}
		return errors.New("the transaction is not on the server and in the database of the lock, which is still held")
	case err != nil:
		return err
	}
	return refusal(outcome)
}

const lostSetting = `"pglock_lost"`

// companions are the bigint keys that guarded transactions of g's keys lock, in order.
func (g *grant) companions() []int64 {
	spaces, locked := g.held()
	numbers := make([]int64, len(locked))
	for i, number := range locked {
		numbers[i] = lockkeys.Companion(driver.KeyID{Space: driver.Space(spaces[i]), Number: number})
	}
	slices.Sort(numbers)
	return numbers
}

// identity is the identity of the session that carries the grant.
func (g *grant) identity(ctx context.Context) (object int32, err error) {
	if s := g.lane; s != nil {
		return s.identity.of(func(object int32) (bool, error) {
			row, _, err := s.do(ctx, lockdb.TakeIdentity, text(s.guardPID), text(lockkeys.IdentityClass), text(object))
			if err != nil && s.hasEnded() {
				err = lostBecause(err)
			}
			return row == "t", classify(err)
		})
	}
	s := g.session
	return s.identity.of(func(object int32) (taken bool, err error) {
		taken, err = query(ctx, s, func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			return lockdb.New(conn).TakeIdentity(ctx, lockdb.TakeIdentityParams{
				Pid: s.pid, Class: lockkeys.IdentityClass, Object: object,
			})
		})
		return taken, s.explain(err)
	})
}

func text(n int32) string { return strconv.Itoa(int(n)) }

// identity is the random object of a session's identity, once it has been taken.
type identity struct {
	mu     sync.Mutex
	object int32 // 0 is none
}

// of returns the identity, and takes one with take, which reports whether nobody else has it, if there is none.
func (id *identity) of(take func(object int32) (bool, error)) (int32, error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	for id.object == 0 {
		object := int32(rand.Uint32())
		taken, err := take(object)
		if err != nil {
			return 0, err
		}
		if taken {
			id.object = object
		}
	}
	return id.object, nil
}

// forget is for a session that has unlocked everything.
func (id *identity) forget() {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.object = 0
}
