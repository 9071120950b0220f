// Package demo demonstrates pglock on a temporary PostgreSQL server: locks inside transactions, a job that runs once, a
// queue, and what the monitor shows of each. The contention is real: it comes from several processes, which run this
// program as workers.
//
// It uses pglock as any program would, with its own SQL and tables.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Demo is a demonstration.
type Demo struct {
	// Out is where it prints.
	Out io.Writer
	// Worker is the command line that runs the function Worker in another process; the name of its part is appended.
	Worker []string
	// Width is the number of columns of Out.
	Width int

	server *pgserver.Server
	pool   *pgxpool.Pool
}

// Run runs the demonstration. When it returns, everything that it started has ended, even if ctx has ended.
func (d *Demo) Run(ctx context.Context) error {
	start := time.Now()
	d.say("Locks on a temporary PostgreSQL server, which is removed at the end. Nothing else is touched.")
	if err := d.runParts(ctx); err != nil {
		return err
	}
	d.say("The server is stopped and its files are removed. That took %.1f s.", time.Since(start).Seconds())
	d.nextSteps()
	return nil
}

// runParts runs the parts that need the server.
func (d *Demo) runParts(ctx context.Context) (err error) {
	stop, err := d.startServer(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	d.pool, err = pgxpool.New(ctx, d.url("demo"))
	if err != nil {
		return err
	}
	defer d.pool.Close()
	for _, act := range []func(context.Context) error{d.install, d.transfers, d.nightly, d.queue, d.checkLeftovers} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *Demo) install(ctx context.Context) error {
	if err := migrations.Up(ctx, d.pool); err != nil {
		return err
	}
	if _, err := d.pool.Exec(ctx, schema); err != nil {
		return err
	}
	d.say("Schema pglock is installed. Locks work without it; with it the monitor can show names instead of numbers.")
	return nil
}

// checkLeftovers checks what the demonstration has left on the server.
func (d *Demo) checkLeftovers(ctx context.Context) error {
	snapshot, err := monitor.Take(ctx, d.pool)
	if err != nil {
		return err
	}
	d.title("What is left")
	if n := len(snapshot.Locks); n > 0 {
		return fmt.Errorf("%d advisory locks are left in pg_locks", n)
	}
	d.say("All %d transfers and %d deployments were counted, and none was lost. pg_locks has no advisory locks: "+
		"every process released its locks.", processes*transfersEach, processes)
	return nil
}

func (d *Demo) nextSteps() {
	d.title("What next")
	_, _ = fmt.Fprint(d.Out, `  pglock monitor --dsn URL              see the advisory locks of your own server
  pglock migrate up --dsn URL           install schema pglock there, for names
  pglock run --dsn URL nightly -- CMD   run a command under a lock, as with flock(1);
                                        with --tick @daily once a day, on any number of machines
  go get github.com/pglock-toolkit/pglock
`)
}

// url returns a connection string with an application_name, which the monitor shows.
func (d *Demo) url(application string) string {
	return withApplication(d.server.ConnString(pgserver.Superuser), application)
}

// show prints a snapshot as the command monitor does.
func (d *Demo) show(snapshot *monitor.Snapshot) {
	target := fmt.Sprintf("%s@127.0.0.1:%d/%s", snapshot.Role, d.server.Port(), snapshot.Database)
	d.print("")
	for _, line := range view.Table(snapshot, view.Filter{}, view.Server{Target: target}, d.Width-len(quote)) {
		d.print("%s", quote+line)
	}
}

// showWhen waits until a snapshot is ready, and prints it.
func (d *Demo) showWhen(ctx context.Context, ready func(*monitor.Snapshot) bool) (*monitor.Snapshot, error) {
	for snapshot, err := range monitor.Watch(ctx, d.pool, 20*time.Millisecond) {
		if err != nil {
			return nil, err
		}
		if ready(snapshot) {
			d.show(snapshot)
			return snapshot, nil
		}
	}
	return nil, context.Cause(ctx)
}

// quote indents the output of the monitor.
const quote = "| "

func (d *Demo) title(title string) { d.print("\n%s\n", title) }

// say prints a paragraph.
func (d *Demo) say(format string, args ...any) {
	for _, line := range view.Wrap(fmt.Sprintf(format, args...), d.Width, "") {
		d.print("%s", line)
	}
}

// print ignores errors: the next step finds them.
func (d *Demo) print(format string, args ...any) { _, _ = fmt.Fprintf(d.Out, format+"\n", args...) }
