package pglock

import (
	"context"
	"reflect"
	"slices"

	"github.com/pglock-toolkit/pglock/internal/hooks"
)

// This file finds the Locks that a call waits under: a call whose context ends with a Lock counts as the Lock's
// holder waiting. Values do not prove that a context ends with a Lock, since context.WithoutCancel keeps them,
// which is how a call says that the Lock does not wait for it. So the chain of contexts is followed, and only
// through contexts that are known to end with their parents.

// ancestry is the context key of the Lock that a context descends from. Such a context need not end with the Lock.
type ancestry struct{}

// ancestors returns the held Locks that certainly end ctx when they end, the nearest first.
func ancestors(ctx context.Context) []*Lock {
	locks, _ := lineage(ctx)
	return locks
}

// lineage returns ancestors, and the transactions whose work is done with ctx.
func lineage(ctx context.Context) (locks []*Lock, txs []placedTx) {
	if ctx.Value(ancestry{}) == nil {
		return nil, nil
	}
	for ctx != nil {
		lock := (*Lock)(nil)
		switch c := ctx.(type) {
		case *lockContext:
			lock, ctx = c.lock, c.parent
		case *txContext:
			txs, ctx = append(txs, c.tie), c.Context
		case hooks.DerivedContext:
			ctx = c.Parent()
		default:
			ctx = parentOf(ctx)
		}
		if lock != nil && lock.Err() == nil && !slices.Contains(locks, lock) {
			locks = append(locks, lock)
		}
	}
	return locks, txs
}

// endsWithParent are the types of package context that end when their parent does.
var endsWithParent = map[string]bool{"cancelCtx": true, "timerCtx": true, "valueCtx": true, "stopCtx": true}

// parentOf returns the context that ctx was made from, if ctx is of package context and ends with it; else nil. The
// types there are not exported, and all embed their parent.
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
