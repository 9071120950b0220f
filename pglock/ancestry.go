package pglock

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/txlock"
)

// This file finds calls that would wait for themselves. A call that waits for a Lock whose end also ends the call's
// context cannot be granted, whatever other goroutines do. Values do not prove that a context ends with a Lock, since
// context.WithoutCancel keeps them. So the chain of contexts is followed, and only through contexts that are known to
// end with their parents.

// ancestry is the context key of the Lock that a context descends from. Such a context need not end with the Lock.
type ancestry struct{}

// ancestors returns the held Locks that certainly end ctx when they end, the nearest first.
func ancestors(ctx context.Context) iter.Seq[*Lock] {
	return func(yield func(*Lock) bool) {
		if ctx.Value(ancestry{}) == nil {
			return
		}
		for ctx != nil {
			lock := (*Lock)(nil)
			switch c := ctx.(type) {
			case *lockContext:
				lock, ctx = c.lock, c.Context
			case *valuesContext: // its other parent does not end
				lock, ctx = c.lock, nil
			case *observedContext:
				ctx = c.Context
			default:
				ctx = parentOf(ctx)
			}
			if lock != nil && lock.Err() == nil && !yield(lock) {
				return
			}
		}
	}
}

// endsWithParent are the types of package context that end when their parent does.
var endsWithParent = map[string]bool{"cancelCtx": true, "timerCtx": true, "valueCtx": true, "stopCtx": true}

// parentOf returns the context that ctx was made from, if ctx is of package context and ends with it; else nil. The types
// there are not exported, and all embed their parent.
func parentOf(ctx context.Context) context.Context {
	v := reflect.ValueOf(ctx)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || v.Type().PkgPath() != "context" || !endsWithParent[v.Type().Name()] {
		return nil
	}
	field := v.FieldByName("Context")
	if !field.IsValid() || !field.CanInterface() {
		return nil
	}
	parent, _ := field.Interface().(context.Context)
	return parent
}

// waitsForItself returns an error if r waits for a key of a Lock that ends ctx when it ends.
func (l *Locker) waitsForItself(ctx context.Context, r *request) error {
	for lock := range ancestors(ctx) {
		if lock.hold.locker != l || lock.hold.shared && r.config.shared {
			continue
		}
		for _, key := range r.keys {
			same := func(held driver.Key) bool { return l.identityOf(held) == l.identityOf(key) }
			if slices.ContainsFunc(lock.keys(), same) {
				return selfDeadlock(Key{k: key})
			}
		}
	}
	return nil
}

func selfDeadlock(key Key) error {
	return fmt.Errorf("%w: its context descends from that of a Lock of %s, which is held "+
		"(use that Lock, or a context from before it)", ErrSelfDeadlock, keyText(key, 0))
}

// txWaitsForItself is waitsForItself for a transaction. It asks the transaction's server whether it has the Lock.
func txWaitsForItself(ctx context.Context, tx pgx.Tx, keys []Key, shared bool) error {
	for lock := range ancestors(ctx) {
		checker, ok := lock.hold.locker.backend.(txlock.Backend)
		if !ok || lock.hold.shared && shared {
			continue
		}
		for _, key := range keys {
			same := func(held driver.Key) bool { return held.KeyID == key.k.KeyID }
			if !slices.ContainsFunc(lock.keys(), same) {
				continue
			}
			if seen, err := checker.SameServer(ctx, tx, lock.hold.grant); err == nil && seen && lock.Err() == nil {
				return failed("lock", keys[0], len(keys)-1, selfDeadlock(key))
			}
		}
	}
	return nil
}
