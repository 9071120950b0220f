// Command demo shows locks, holders and waiters on a temporary PostgreSQL server, which is removed at the end: make demo.
// The contention is real: it comes from several processes, which run this program as workers.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

const processes = 4

var (
	visitsKey = pglock.NewKey("counter:visits")
	deployKey = pglock.NewKey("deploy:production")
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if len(os.Args) > 1 {
		return worker(ctx, os.Args[1])
	}
	return show(ctx, os.Stdout)
}

// demo is the demonstration while its server runs.
type demo struct {
	out  io.Writer
	url  string
	pool *pgxpool.Pool
}

// show runs the demonstration. When it returns, everything that it has started has ended.
func show(ctx context.Context, out io.Writer) (err error) {
	url, stop, err := startServer(ctx, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	d := demo{out, url, pool}
	for _, part := range []func(context.Context) error{d.install, d.counter, d.queue, d.end} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d demo) say(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format+"\n", args...) }

// install installs schema pglock, so that the monitor can show names, and the table of the counter.
func (d demo) install(ctx context.Context) error {
	if err := migrations.Up(ctx, d.pool); err != nil {
		return err
	}
	_, err := d.pool.Exec(ctx, "CREATE TABLE counter (n bigint NOT NULL); SELECT pglock.register('"+visitsKey.Name()+"')")
	return err
}

// counter shows locks inside transactions, and what happens without them.
func (d demo) counter(ctx context.Context) error {
	d.say("\n%d processes add 1 to a number, %d times each: a transaction reads it, computes, and writes it.", processes, additions)
	n, err := d.count(ctx, "add", func(*monitor.Snapshot) bool { return true })
	if err != nil {
		return err
	}
	d.say("Without a lock they overwrite each other's work: the number is %d.", n)
	d.say("\nNow each transaction first calls pglock.LockTx(ctx, tx, key). Meanwhile the monitor sees:\n")
	n, err = d.count(ctx, "add-locked", func(s *monitor.Snapshot) bool {
		lock, _ := s.Find(visitsKey)
		if len(lock.Holders) == 0 || len(lock.Waiters) == 0 {
			return false
		}
		d.print(s, lock)
		return true
	})
	if err != nil {
		return err
	}
	d.say("\nThe number is %d.", n)
	if n != processes*additions {
		return errors.New("additions were lost under the lock")
	}
	return nil
}

// count lets workers count from 0, and watches until it has seen enough.
func (d demo) count(ctx context.Context, part string, seen func(*monitor.Snapshot) bool) (n int64, err error) {
	if _, err := d.pool.Exec(ctx, "TRUNCATE counter; INSERT INTO counter VALUES (0)"); err != nil {
		return 0, err
	}
	end, err := d.start(ctx, part)
	if err != nil {
		return 0, err
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- d.watch(watching, seen) }()
	err = end()
	stop()
	if err := errors.Join(err, <-watched, ctx.Err()); err != nil {
		return 0, err
	}
	err = d.pool.QueryRow(ctx, "SELECT n FROM counter").Scan(&n)
	return n, err
}

// queue shows waiters of a lock that is held across transactions.
func (d demo) queue(ctx context.Context) (err error) {
	locker, err := pglock.Open(ctx, d.url, pglock.WithNames())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close(ctx)) }()
	lock, err := locker.Lock(ctx, deployKey)
	if err != nil {
		return err
	}
	d.say("\nThis process holds %q with locker.Lock, and %d others wait for it:\n", deployKey, processes)
	end, err := d.start(ctx, "deploy") //pglock:allow they go on after the lock
	if err != nil {
		return errors.Join(err, lock.Unlock(ctx))
	}
	err = d.watch(ctx, func(s *monitor.Snapshot) bool {
		seen, _ := s.Find(deployKey)
		if len(seen.Waiters) < processes || len(seen.Names) == 0 {
			return false
		}
		d.print(s, seen)
		return true
	})
	d.say("\nIt unlocks, and they follow one after another:")
	return errors.Join(err, ctx.Err(), lock.Unlock(ctx), end())
}

func (d demo) end(ctx context.Context) error {
	snapshot, err := monitor.Take(ctx, d.pool)
	if err != nil {
		return err
	}
	if n := len(snapshot.Locks); n > 0 {
		return fmt.Errorf("%d locks are left", n)
	}
	d.say("\nNo lock is left. See those of your own server with:  pglock monitor --dsn URL")
	return nil
}

// watch takes snapshots until one is enough, or ctx ends.
func (d demo) watch(ctx context.Context, enough func(*monitor.Snapshot) bool) error {
	for snapshot, err := range monitor.NewWatcher(d.pool).Watch(ctx, 20*time.Millisecond) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if enough(snapshot) {
			return nil
		}
	}
	return nil
}

// print prints a lock with its holders and waiters.
func (d demo) print(s *monitor.Snapshot, lock monitor.Lock) {
	d.say("| %s", lock.Key)
	for _, holder := range lock.Holders {
		d.say("|   held by session %d, %s", holder.PID, holder.Application)
	}
	for _, waiter := range lock.Waiters {
		var waited time.Duration
		if waiter.WaitingSince != nil {
			waited = max(0, s.TakenAt.Sub(*waiter.WaitingSince).Truncate(time.Millisecond)) // it may have begun since
		}
		d.say("|   session %d, %s, has waited for %v", waiter.PID, waiter.Application, waited)
	}
}

// start starts this program as several workers with the same part. The caller must call end, which waits for them; they are
// killed when ctx ends.
func (d demo) start(ctx context.Context, part string) (end func() error, err error) {
	ctx, kill := context.WithCancel(ctx)
	var workers []*exec.Cmd
	end = func() error {
		defer kill()
		var errs []error
		for _, w := range workers {
			errs = append(errs, w.Wait())
		}
		return errors.Join(errs...)
	}
	for range processes {
		cmd := exec.CommandContext(ctx, os.Args[0], part)
		cmd.Env = append(os.Environ(), urlVariable+"="+d.url+"&application_name="+part)
		cmd.Stdout, cmd.Stderr = d.out, os.Stderr
		if err := cmd.Start(); err != nil {
			kill()
			return nil, errors.Join(err, end())
		}
		workers = append(workers, cmd)
	}
	return end, nil
}
