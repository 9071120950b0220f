// Package semaphore limits the number of holders across processes. It is made of locks, works on any backend of package
// pglock, and needs nothing installed in the database.
//
//	sem, err := semaphore.New(locker, pglock.NewKey("reports"), 10)
//	err = sem.Do(ctx, func(ctx context.Context, permit *semaphore.Permit) error {
//		return report(ctx) // at most ten at a time, wherever they run
//	})
//
// # How it works
//
// A semaphore has a slot for each permit, and a gate. A slot is a lock, so a permit ends with the session of its
// holder: a crash returns the permits of the process. With locks in rows (package rowlock) and on Redis, where no
// session holds a lock, it returns them when the lease expires. To acquire a permit, a process takes the gate, looks
// for a free slot, and releases the gate for the next process in its queue. The gate is a lock too, so processes wait
// for it in the server's queue (in rows they poll, with pauses of up to 0.6 s). While all slots are held, the holder of
// the gate probes all of them, first after 0.6 ms, then after growing pauses of up to 20 ms. Meanwhile no other caller
// asks the server for a slot.
//
// A released permit goes to the first waiter in the same process, without asking the server. Whenever the Locker's
// handoff limit is reached ([pglock.WithHandoffLimit]), one permit goes back to the server, for the process that holds
// the gate. A process that holds the gate itself passes its permits on without that limit.
//
// # What is guaranteed
//
// At most n permits are held at a time, as far as locks can ensure that: see package pglock for the brief overlap
// that is possible when a server ends a session or fails over. A permit's context ends like that of a [pglock.Lock];
// [Permit.GuardTx] ties a transaction to it. Waiters of one process are served in the order of their arrival, and
// processes in the order of the server's queue. Redlock has no queue, so there the order is random.
// [Semaphore.AcquireN] collects its slots at the head of the line, so that no other call can overtake it and no two
// calls can wait for each other.
//
// Processes may differ in n, for example during a deployment that changes it: slots do not depend on n, and no more
// permits are held than the larger n. A process with the smaller n uses only the first slots.
//
// # What is not
//
// A goroutine that holds permits and acquires more of the same semaphore may wait for its own permits. It fails with
// [pglock.ErrDeadlock] if all permits are held by calls of its process that wait for it, under the permits' contexts.
// Waking a waiter in another process takes up to 20 ms plus the time of the server's queue. There are no permits of a
// transaction: acquire one before the transaction begins, and guard it with [Permit.GuardTx].
package semaphore
