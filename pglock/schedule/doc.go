// Package schedule runs a job once for each time at which it is due, in one of many processes.
//
// A lock alone does not do that. It prevents that two runs overlap, but three processes that start a job of half a second
// within two seconds of each other run it three times, one after the other. What makes a run the same run in every
// process is its due time, say 04:00, not the moment at which a process happens to look at its clock. So a run is known
// by its job and when it was due, and that it was done is recorded, by the server's clock, while the job holds its lock:
//
//	jobs, err := schedule.New(locker)
//	…
//	err = jobs.Run(ctx, "nightly-report", due, func(ctx context.Context, lock *pglock.Lock) error {
//		return report(ctx)
//	})
//	if errors.Is(err, schedule.ErrAlreadyRan) {
//		err = nil // another process has done it
//	}
//
// Where the due time comes from is not this package's business: robfig/cron and gocron have adapters in
// pglock/adapter/cron and pglock/adapter/gocron, and [Every] is for loops of your own. Processes must agree on it, so it
// must not be computed from the moment of their start; their clocks need not agree.
//
// What holds:
//
//   - Never two runs of a job at a time, as far as its lock goes: see the package comment of pglock for what a lock means
//     when the network or the process fails. The lock's name is the job's.
//   - With [MarkOn] Start, the default, at most one run for each due time, whatever fails. A process that crashes in the
//     middle leaves that run undone.
//   - With MarkOn Success at least one run that succeeds, as long as some process asks for it again.
//   - With [Jobs.RunTx], on PostgreSQL, exactly one for what the function writes in its transaction.
//
// Records are on the server of the Locker: in schema pglock of PostgreSQL ([pglock.ErrSchemaMissing]), or beside the locks
// on Redis, where a failover can lose the last of them. Redlock has no place for them: [pglock.ErrUnsupported].
package schedule
