package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/internal/supervise"
	"github.com/pglock-toolkit/pglock/pglock"
)

// rowLocks compares package rowlock with a statement and a commit for each lock and each unlock, both through the same
// PgBouncer in transaction mode with four server connections, on a server that waits for its disk.
func rowLocks(goroutines, keys int, least float64) measured {
	return withRows(func(ctx context.Context, l *lab, r *rowLab) (_ []report.Line, err error) {
		pool, err := pooledRows(ctx, r.through)
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		locker, err := r.locker(ctx, nil)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, closeLocker(locker)) }()
		var ours, plain costs
		each := keys / goroutines // of a goroutine's own, so that all are free
		all, err := contest.Run(ctx, l.plan,
			contest.Contestant{Name: "rowlock", Measure: r.metered(&ours, contest.Rate(goroutines, func(ctx context.Context, worker, _ int) error {
				lock, err := locker.Lock(ctx, pglock.Int64Key(int64(worker*each+rand.IntN(each))))
				if err != nil {
					return err
				}
				return lock.Unlock(ctx)
			}))},
			contest.Contestant{Name: "a statement for each", Measure: r.metered(&plain, contest.Rate(goroutines, func(ctx context.Context, worker, _ int) error {
				key := worker*each + rand.IntN(each)
				if _, err := pool.Exec(ctx, lockRow, key, worker); err != nil {
					return err
				}
				_, err := pool.Exec(ctx, unlockRow, key, worker)
				return err
			}))})
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("%d goroutines through a pooler", goroutines)
		return []report.Line{
			compared(what, report.PerSecond, all[0], all[1]).Aim(report.AtLeast, least),
			compared("  client CPU for each", report.Seconds, ours.client, plain.client),
			compared("  server CPU for each", report.Seconds, ours.server, plain.server),
		}, nil
	})
}

const (
	makeRows = "CREATE TABLE bench_locks (key bigint PRIMARY KEY, holder bigint) WITH (fillfactor = 50)"
	lockRow  = `INSERT INTO bench_locks AS l (key, holder) VALUES ($1, $2)
		ON CONFLICT (key) DO UPDATE SET holder = $2 WHERE l.holder IS NULL`
	unlockRow = "UPDATE bench_locks SET holder = NULL WHERE key = $1 AND holder = $2"
)

// pooledRows returns a pool through the pooler, to a database that has the schema and the table.
func pooledRows(ctx context.Context, through string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(through)
	if err != nil {
		return nil, err
	}
	config.MaxConns = poolSize
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, makeRows); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// startPooler starts PgBouncer in transaction mode with four connections to the server.
func startPooler(ctx context.Context, server string) (through string, stop func() error, err error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // where Debian has it
	}
	target, err := url.Parse(server)
	if err != nil {
		return "", nil, err
	}
	password, _ := target.User.Password()
	port, err := supervise.FreePort()
	if err != nil {
		return "", nil, err
	}
	processes, err := supervise.New("pglock-bench-pooler-")
	if err != nil {
		return "", nil, err
	}
	users, err := processes.WriteFile("users.txt", fmt.Sprintf("%q %q\n", target.User.Username(), password))
	if err != nil {
		return "", nil, errors.Join(err, processes.Close())
	}
	settings, err := processes.WriteFile("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
pool_mode = transaction
auth_type = scram-sha-256
auth_file = %s
max_client_conn = 1000
default_pool_size = 4
`, target.Hostname(), target.Port(), port, users))
	if err == nil {
		_, err = processes.Start(processes.Command(context.WithoutCancel(ctx), program, settings), processes.Path("log"))
	}
	if err != nil {
		return "", nil, errors.Join(err, processes.Close())
	}
	target.Host = fmt.Sprintf("127.0.0.1:%d", port)
	for range 100 {
		conn, dialErr := pgx.Connect(ctx, target.String())
		if dialErr == nil {
			return target.String(), processes.Close, conn.Close(ctx)
		}
		err = dialErr
		time.Sleep(50 * time.Millisecond)
	}
	return "", nil, errors.Join(fmt.Errorf("PgBouncer does not answer: %w", err), processes.Close())
}
