// Package once makes sure that a piece of work is done once: in the transaction that does it, [Scope.Tx] finds out
// whether it has already been done. For a redelivered message, a repeated HTTP request with the same Idempotency-Key,
// or a restarted job there are four answers: this is the first; it has been done ([pglock.ErrDone]); it has been done
// with other contents ([ErrMismatch]); another transaction is working on it (*[pglock.WaitError], which names it).
//
//	payments, err := once.New(pglock.NewKey("payments"))
//	…
//	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := payments.Tx(ctx, tx, message.ID); err != nil {
//			return err
//		}
//		return pay(ctx, tx, message) // commits together with the record that it was done
//	})
//	if errors.Is(err, pglock.ErrDone) {
//		err = nil // acknowledge it again
//	}
//
// What a transaction writes happens once, since it commits together with the record or not at all. Effects elsewhere
// (an email, a call to another service) may happen more often, since a transaction that fails after them is repeated.
//
// A duplicate that arrives while the first is running waits on an advisory lock, which the monitor shows. It gets
// [pglock.ErrDone] if the first commits, and becomes the first itself if that one rolls back. [pglock.WithObserver]
// is an option of the call.
//
// It needs schema pglock ([pglock.ErrSchemaMissing]) and a READ COMMITTED transaction on PostgreSQL: under REPEATABLE
// READ and SERIALIZABLE a transaction does not see what was done since it began, so those are refused with
// [pglock.ErrStaleSnapshot]. There is no such package for Redis, since a record there cannot commit together with the
// work.
//
// Records are kept until [Prune] deletes them. Call it from a cron job or a goroutine of the service. If it is never
// called, the records only take up space.
package once
