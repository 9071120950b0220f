// Package leader elects one of many processes to do a job for as long as it lives. Candidates wait for the same lock,
// on any backend of package pglock.
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
// Within a process, an [Elector] runs lead at most once at a time. The lock is unlocked only after lead has returned,
// so a leader that resigns, or whose process shuts down cleanly, never overlaps with its successor.
//
// A leader that falls silent (a partition, a frozen process, a dead host) has its context ended before another can be
// elected. If the server ends the session (it is terminated, or the server restarts), the context ends one network
// delay later. Until then two contexts can be alive; package pglock describes the same for every lock. (A lock in a
// row, of package rowlock, does not end with a session.) Writes that must not be stale belong in transactions that
// [pglock.Lock.GuardTx] guards: every guarded write of a leader comes before the first guarded write of its successor.
//
// # What is not
//
// A lead that ignores the end of its context keeps running while another process leads. [Elector.HealthCheck] finds
// such a process.
//
// Between two leaders there is a gap. After a resignation it lasts until the server wakes the next waiter, and after a
// crash until the server sees the connection end. After a freeze or a partition it lasts until the lease expires (see
// [pglock.WithLease]). With locks in rows an election after a resignation takes up to 0.6 s. In rows and on Redis a
// crash is like a freeze: no connection holds the lock, so the gap lasts until the lease expires.
package leader
