package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

const runHelp = `It waits for the lock, runs the command without a shell, as flock(1) does, and
releases the lock. If pglock dies, even by SIGKILL, or is frozen, all that the
command has started is killed before the server frees the lock, unless its
guard, the process "pglock __guard", is killed or frozen too. If the lock is
lost, the command gets SIGTERM and, after --kill-after, SIGKILL; a command that
ignores SIGTERM runs beside the next holder for that long.

The command gets PGLOCK_KEY in its environment and, with schema pglock,
PGLOCK_FENCE, a number larger than that of every earlier holder.
With --tick it runs once for each due time, on the first machine to start it:
@hourly, "@every 15m", "30 4 * * *" and so on; it gets PGLOCK_DUE. With --rows
the lock is in a row of schema pglock, which works through PgBouncer; it
excludes only others with --rows. docs/cli.md says more.

Exit codes: the command's own, or 0 if the tick has been run; 75 another session
holds the lock; 70 the lock was lost; 69 no database, or one that cannot keep
locks; 65 schema pglock is not trusted; 64 wrong usage; 126, 127 the command
cannot be executed, was not found; 124 --max-run; 128+n ended by signal n.`

type run struct {
	dsn          *dsn
	nonblock     bool
	wait         seconds
	bounded      bool // wait was given
	shared       bool
	permits      int // 0 for a lock
	conflictCode exitCode
	killAfter    seconds
	maxRun       seconds // 0: no bound
	jitter       seconds
	lease        seconds
	rows         bool // the lock is in a row
	allowPooler  bool
	verbose      bool
	sockets      sockets // of the Locker's sessions

	tick         tick
	zone         timeZone
	untilSuccess bool
	due          time.Time // due time of the tick; zero without one
}

func newRun(server *dsn) *cobra.Command {
	r := run{dsn: server, conflictCode: codeHeld, killAfter: seconds(10 * time.Second), lease: seconds(15 * time.Second)}
	cmd := &cobra.Command{
		Use:   "run [flags] KEY -- COMMAND ARGUMENTS…",
		Short: "Run a command while holding a lock",
		Long:  runHelp,
		Example: `  pglock run nightly-report -- ./report.sh
  pglock run -n import -- ./import.sh         # exit code 75 if already running
  pglock run -w 1m deploy -c 'make build && make deploy'
  pglock run --tick @hourly report -- ./report.sh   # on several machines
  pglock run --permits 5 thumbnails -- ./thumbnail.sh photo.jpg`,
		RunE: r.command,
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags after KEY belong to the command
	flags.BoolVarP(&r.nonblock, "nonblock", "n", false, "fail instead of waiting")
	flags.BoolP("exclusive", "x", false, "take the lock exclusively (default)")
	flags.VarP(&r.wait, "wait", "w", "fail if it is not free within `duration`")
	flags.BoolVarP(&r.shared, "shared", "s", false, "take it shared with others")
	flags.IntVarP(&r.permits, "permits", "p", 0, "up to `n` commands run at a time")
	flags.VarP(&r.conflictCode, "conflict-exit-code", "E", "exit with `n` if -n or -w fails")
	flags.Var(&r.killAfter, "kill-after", "from SIGTERM to SIGKILL")
	flags.Var(&r.maxRun, "max-run", "end the command after `duration`, with exit code 124")
	flags.Var(&r.jitter, "jitter", "with --tick: begin up to `duration` later")
	flags.Var(&r.lease, "lease", "how long the lock outlasts pglock")
	flags.BoolVar(&r.rows, "rows", false, "the lock is in a row of schema pglock")
	flags.BoolVar(&r.allowPooler, "allow-pooler", false, "accept a proxy that keeps sessions")
	flags.Var(&r.tick, "tick", "run it once for each due time")
	flags.Var(&r.zone, "time-zone", "of the tick, such as Europe/Berlin (default UTC)")
	flags.BoolVar(&r.untilSuccess, "until-success", false, "with --tick: again, until it succeeds")
	flags.BoolVarP(&r.verbose, "verbose", "v", false, "print what happens")
	return cmd
}

func (r *run) command(cmd *cobra.Command, args []string) error {
	if err := r.check(cmd); err != nil {
		return err
	}
	key, argv, err := parseRun(cmd, args)
	if err != nil {
		return err
	}
	if err := r.checkTick(cmd, key); err != nil {
		return err
	}
	path, err := job.Find(argv[0]) // before taking a lock that others could wait for
	if err != nil {
		return err
	}
	server, err := r.server(cmd, argv[0])
	if err != nil {
		return err
	}
	under := lockedRun{run: r, server: server, key: key, signals: job.Catch()}
	code, err := under.execute(path, argv)
	if closeErr := server.locker.Close(context.Background()); closeErr != nil {
		say(os.Stderr, "%v", server.failed(closeErr)) // this error does not mention the lock, which is already unlocked
	}
	if err == nil && code != 0 {
		err = &exit{code: code}
	}
	return err
}

func (r *run) check(cmd *cobra.Command) error {
	r.bounded = cmd.Flags().Changed("wait")
	if r.shared && cmd.Flags().Changed("exclusive") {
		return misuse(cmd, "--shared contradicts --exclusive")
	}
	if lease := time.Duration(r.lease); lease < leastLease || lease > mostLease {
		return misuse(cmd, "--lease %v: the lease must be between %v and %v", lease, leastLease, mostLease)
	}
	if r.nonblock && r.bounded {
		return misuse(cmd, "-n (do not wait) contradicts -w %v (wait)", time.Duration(r.wait))
	}
	if r.rows && r.allowPooler {
		return misuse(cmd, "--rows contradicts --allow-pooler, which is for locks of sessions")
	}
	if cmd.Flags().Changed("permits") {
		switch {
		case r.permits < 1 || r.permits > lockkeys.MaxSlots:
			return misuse(cmd, "--permits %d: the number must be between 1 and %d", r.permits, lockkeys.MaxSlots)
		case r.shared:
			return misuse(cmd, "--permits contradicts --shared: a permit has one holder")
		case r.tick.spec != "":
			return misuse(cmd, "--permits contradicts --tick, which runs one command at a time")
		}
	}
	return nil
}

// leastLease and mostLease are the bounds of pglock.WithLease.
const leastLease, mostLease = time.Second, 24 * time.Hour

// parseRun splits the arguments. The -- before the command may be omitted, as with flock(1).
func parseRun(cmd *cobra.Command, args []string) (key pglock.Key, argv []string, err error) {
	if len(args) == 0 {
		return key, nil, misuse(cmd, "expected KEY -- COMMAND")
	}
	if key, err = parseKey(cmd, args[0]); err != nil {
		return key, nil, err
	}
	argv = args[1:]
	if len(argv) > 0 && (argv[0] == "-c" || argv[0] == "--command") { // after the key, as in flock(1)
		if len(argv) != 2 || argv[1] == "" {
			return key, nil, misuse(cmd, "-c takes one command line for the shell: pglock run %s -c 'COMMAND'", args[0])
		}
		return key, []string{"/bin/sh", "-c", argv[1]}, nil
	}
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	} else if len(argv) > 0 && strings.HasPrefix(argv[0], "-") {
		return key, nil, misuse(cmd, "flags such as %s go before the key: pglock run FLAGS %s -- COMMAND", argv[0], args[0])
	}
	if len(argv) == 0 || argv[0] == "" {
		return key, nil, misuse(cmd, "there is no command to run under the lock %q", key)
	}
	return key, argv, nil
}

// server is the server on which a command takes its lock.
type server struct {
	database
	locker *pglock.Locker
}

// server returns the server that the flags name.
func (r *run) server(cmd *cobra.Command, command string) (*server, error) {
	db, err := r.dsn.resolve(cmd)
	if err != nil {
		return nil, err
	}
	if len(db.trusted) > 0 {
		pool, err := db.pool(cmd.Context(), "pglock run")
		if err == nil {
			err = db.checkTrusted(cmd.Context(), pool)
			pool.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	locker, err := r.postgres(cmd.Context(), db, r.options(db, command))
	if err != nil {
		return nil, misuse(cmd, "%s", strings.TrimPrefix(err.Error(), program))
	}
	return &server{database: db, locker: locker}, nil
}

// postgres returns a Locker on a PostgreSQL.
func (r *run) postgres(ctx context.Context, db database, options []pglock.Option) (*pglock.Locker, error) {
	if !r.rows {
		r.sockets.remember(db.config.ConnConfig)
		return pglock.NewWithConfig(db.config, options...)
	}
	config := db.config.Copy()
	config.MinConns, config.MinIdleConns = 0, 0 // the Locker has connections of its own
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	return rowlock.New(pool, options...)
}

// inOneLine shortens errors in the log of --verbose.
func inOneLine(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(oneLine(err.Error()))
	}
	return a
}

func (r *run) options(db database, command string) []pglock.Option {
	options := []pglock.Option{pglock.WithLease(time.Duration(r.lease)), pglock.WithNames(), pglock.WithTrustedOwner(db.trusted...)}
	var log slog.Handler = slog.DiscardHandler
	if r.verbose {
		log = slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: inOneLine})
	}
	options = append(options, pglock.WithLogger(slog.New(log)))
	if db.config.ConnConfig.RuntimeParams["application_name"] == "" {
		options = append(options, pglock.WithApplicationName("pglock run "+filepath.Base(command)))
	}
	if r.allowPooler {
		options = append(options, pglock.AllowPooler())
	}
	return options
}
