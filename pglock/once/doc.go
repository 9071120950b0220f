// Package once does things once: in the transaction that does them, [Tx] finds out whether they have been done already.
// A redelivered message, a repeated HTTP request with the same Idempotency-Key, a job that was started again are each
// answered in one of four ways: you are the first; it has been done ([ErrDone]); it has been done for other contents
// ([ErrMismatch]); another transaction is at it, and this is who (*[pglock.WaitError]).
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := once.Tx(ctx, tx, "payments", message.ID); err != nil {
//			return err
//		}
//		return pay(ctx, tx, message) // commits together with the record that it was done
//	})
//	if errors.Is(err, once.ErrDone) {
//		err = nil // acknowledge it again
//	}
//
// What a transaction writes happens once, since it commits together with the record, or neither does. What it does
// elsewhere (a mail, a call of another service) may happen more often: a transaction that fails after it is repeated.
//
// A duplicate that comes while the first is at it waits on an advisory lock with the key [Key], where the monitor and
// the errors show what it waits for. It gets [ErrDone] when the first commits, and is the first itself when that rolls
// back.
//
// It needs schema pglock ([pglock.ErrSchemaMissing]) and a READ COMMITTED transaction on PostgreSQL: under REPEATABLE
// READ and SERIALIZABLE a transaction does not see what was done since it began, so those are refused with
// [pglock.ErrStaleSnapshot]. There is no such package for Redis, since a record there cannot commit together with what
// it is about.
//
// Records are kept until [Prune] forgets them, which something has to call: a cron job, or a goroutine of the service.
// To forget any number of records takes the time of a TRUNCATE. If it is never called, the records only take up space.
package once
