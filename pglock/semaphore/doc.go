// Package semaphore lets at most n holders at a time do something, across processes: with locks, on any backend of
// package pglock, and with nothing installed in the database.
//
//	sem, err := semaphore.New(locker, pglock.NewKey("reports"), 10)
//	err = sem.Do(ctx, func(ctx context.Context, permit *semaphore.Permit) error {
//		return report(ctx) // at most ten at a time, wherever they run
//	})
//
// # How it works
//
// A semaphore has a slot for each permit, and a gate. A slot is a lock, so a permit ends with the session of its holder:
// a process that crashes gives its permits back. To acquire a permit a process takes the gate, which is a lock too and
// has the server's queue, looks for a free slot, and releases the gate for the next in line. While all slots are held
// the holder of the gate looks again every 20 ms, for all slots at once; no other caller asks the server for anything
// meanwhile.
//
// A permit that is released goes to the first waiter in the same process, without asking the server. Whenever the
// Locker's handoff limit is reached ([pglock.WithHandoffLimit]), one is given back, for the process that holds the gate. A
// process that holds the gate itself passes its permits on without that limit.
//
// # What is guaranteed
//
// At most n permits are held at a time, as far as locks go: see package pglock for what a server that ends a session, or
// a failover, can do for a moment. A permit's context ends like that of a [pglock.Lock]; [Permit.GuardTx] ties a
// transaction to it. Waiters of one process are served in the order of their arrival, processes in the order of the
// server's queue (on Redlock, which has none, by chance). [Semaphore.AcquireN] gathers its slots at the head of the
// line, so that it cannot be overtaken and two of them cannot wait for each other.
//
// n may differ between processes while it is changed by a deployment: slots do not depend on it, and never more than
// the larger n permits are held. A process with the smaller n uses the first slots only.
//
// # What is not
//
// A goroutine that holds permits and acquires more of the same semaphore can wait for itself. Wake-up between processes
// takes up to 20 ms, and the time that the server's queue takes. [AcquireTx] has no place in the line.
package semaphore
