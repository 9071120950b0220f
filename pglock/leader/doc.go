// Package leader elects one process of many to do something, for as long as it lives: with a lock that every candidate
// waits for, on any backend of package pglock.
//
//	err := leader.Run(ctx, locker, pglock.NewKey("scheduler"), func(ctx context.Context, lock *pglock.Lock) error {
//		for {
//			if err := step(ctx, lock); err != nil { // writes in transactions that lock.GuardTx guards
//				return err
//			}
//		}
//	})
//
// # What is guaranteed
//
// In one process lead runs at most once at a time for an [Elector]. The lock is unlocked only after lead has returned,
// so a leader that resigns, or whose process shuts down in order, never overlaps with its successor.
//
// A leader that falls silent (partition, frozen process, dead host) has its context ended before another can be elected.
// Where the server ends the session (terminated, restarted), the context ends one network delay later, and for so long
// two contexts can be alive: package pglock says so of every lock. Writes that must not be stale belong in transactions
// that [pglock.Lock.GuardTx] guards: no guarded write of a leader comes after the first guarded write of its successor.
//
// # What is not
//
// A lead that ignores the end of its context goes on while another leads. [Elector.HealthCheck] finds such a process.
//
// How long there is no leader: after a resignation as long as the server takes to wake the next in its queue; after a
// crash until the server has noticed the end of the connection; after a freeze or a partition until the lease is over
// (see [pglock.WithLease]).
package leader
