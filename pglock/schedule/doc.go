// Package schedule runs a job once for each time it is due, in one of many processes.
//
// A lock alone does not do that. It prevents overlap, but three processes that start a short job within two seconds run
// it three times, one after another. So a run is identified by its job and its due time, say 04:00, and not by the
// start of a process. It is recorded, by the server's clock, while the process holds the job's lock:
//
//	job, err := schedule.New(locker, pglock.NewKey("nightly-report"))
//	…
//	err = job.Run(ctx, due, func(ctx context.Context, lock *pglock.Lock) error {
//		return report(ctx)
//	})
//	if errors.Is(err, pglock.ErrDone) {
//		err = nil // another process has done it
//	}
//
// This package does not decide when a job is due. A library such as robfig/cron does, or [Every] in a loop of your own.
// Processes must agree on the due time, so it must not depend on when they started; their clocks need not agree.
//
// What is guaranteed:
//
//   - No two runs of a job at a time, as far as a lock can ensure that: see the package comment of pglock for what a
//     lock means when the network or the process fails.
//   - With [MarkStart], the default, at most one run for each due time, whatever process or network fails, and even if
//     the server crashes. A process that crashes in the middle leaves that run undone. With locks in rows (package
//     rowlock) and on Redis the next run begins when the lease of such a process is over.
//   - With [MarkSuccess] at least one run that succeeds, as long as some process asks for it again.
//   - With [Job.RunTx], on PostgreSQL, what the function writes in its transaction is written exactly once.
//
// Records are kept on the Locker's server: in PostgreSQL's schema pglock ([pglock.ErrSchemaMissing]), or on Redis. A
// failover to an asynchronous standby can lose the latest of them, and then those runs are repeated; on Redis every
// standby is asynchronous. Redlock cannot keep records: [pglock.ErrUnsupported].
//
// A due time is an instant. Evaluate cron expressions in UTC: with daylight saving time one hour repeats and another is
// skipped, and processes in different time zones do not agree.
package schedule
