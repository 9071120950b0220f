package pglock

import "context"

// Observers returns an Observer that reports to each of observers, in order. A context that one returns is passed to
// the next, and the last one returned counts. Nil observers are left out.
func Observers(observers ...*Observer) *Observer {
	return &Observer{
		WaitStarted: func(ctx context.Context, e WaitStartedInfo) context.Context {
			return passThrough(ctx, e, observers, func(o *Observer) func(context.Context, WaitStartedInfo) context.Context { return o.WaitStarted })
		},
		Acquired: func(ctx context.Context, e AcquiredInfo) context.Context {
			return passThrough(ctx, e, observers, func(o *Observer) func(context.Context, AcquiredInfo) context.Context { return o.Acquired })
		},
		WaitEnded: toAll(observers, func(o *Observer) func(context.Context, WaitEndedInfo) { return o.WaitEnded }),
		Failed:    toAll(observers, func(o *Observer) func(context.Context, FailedInfo) { return o.Failed }),
		Released:  toAll(observers, func(o *Observer) func(context.Context, ReleasedInfo) { return o.Released }),
		Lost:      toAll(observers, func(o *Observer) func(context.Context, LostInfo) { return o.Lost }),
		TxLocked:  toAll(observers, func(o *Observer) func(context.Context, TxLockedInfo) { return o.TxLocked }),
		Recorded:  toAll(observers, func(o *Observer) func(context.Context, RecordedInfo) { return o.Recorded }),
	}
}

// passThrough calls one function of each observer, and returns the context that the last of them has returned; nil when
// none has.
func passThrough[E any](
	ctx context.Context, e E, observers []*Observer, of func(*Observer) func(context.Context, E) context.Context,
) (changed context.Context) {
	for _, o := range observers {
		if o == nil || of(o) == nil {
			continue
		}
		if own := of(o)(ctx, e); own != nil {
			ctx, changed = own, own
		}
	}
	return changed
}

// toAll returns a function that calls one function of each observer.
func toAll[E any](observers []*Observer, of func(*Observer) func(context.Context, E)) func(context.Context, E) {
	return func(ctx context.Context, e E) {
		for _, o := range observers {
			if o != nil && of(o) != nil {
				of(o)(ctx, e)
			}
		}
	}
}
