package doctor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// facts are the input of the checks.
type facts struct {
	// cockroach is CockroachDB's version; nothing else is known about such a server.
	cockroach string
	// keyDataPID is the process ID that the server sent when it accepted the connection.
	keyDataPID  int32
	connection  monitordb.ConnectionRow
	connections monitordb.ConnectionsRow
	settings    map[string]monitordb.SettingsRow
	// snapshots are sessions that have one, if locks in rows are in use.
	snapshots []monitordb.SnapshotsRow
	// lockWorks reports that a granted lock is in the lock table.
	lockWorks bool
	// server are the flags of commands that name the server.
	server   string
	schema   schemaFacts
	snapshot *monitor.Snapshot
}

// schemaFacts are about schema pglock.
type schemaFacts struct {
	monitordb.SchemaRightsRow
	version uint
	err     error // why there is no version
	looked  trust.Looked
	named   []string // additional trusted roles
}

func (s schemaFacts) missing() bool { return errors.Is(s.err, driver.ErrSchemaMissing) }

// The settings that affect locks.
const (
	isolationSetting   = "default_transaction_isolation"
	idleSession        = "idle_session_timeout"
	statementTimeout   = "statement_timeout"
	lockTimeout        = "lock_timeout"
	checkInterval      = "client_connection_check_interval"
	keepalivesIdle     = "tcp_keepalives_idle"
	keepalivesInterval = "tcp_keepalives_interval"
	keepalivesCount    = "tcp_keepalives_count"
	deadlockTimeout    = "deadlock_timeout"
	logLockWaits       = "log_lock_waits"
)

var settingNames = []string{isolationSetting, idleSession, statementTimeout,
	lockTimeout, checkInterval, keepalivesIdle, keepalivesInterval, keepalivesCount, deadlockTimeout, logLockWaits}

func readFacts(ctx context.Context, pool *pgxpool.Pool, trusted []string) (facts, error) {
	var f facts
	err := pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) (err error) {
		f, err = readConnectionFacts(ctx, conn.Conn(), trusted)
		return err
	})
	if err != nil || f.cockroach != "" {
		return f, err
	}
	if f.snapshot, err = monitor.Take(ctx, pool, monitor.WithTrustedOwner(trusted...)); err != nil {
		return f, err
	}
	f.schema.version, f.schema.err = migrations.Version(ctx, pool, migrations.WithTrustedOwner(trusted...))
	if err := f.schema.err; sqlstate.Broken(err) || ctx.Err() != nil {
		return f, err
	}
	return f, nil
}

// readConnectionFacts reads the facts over one connection.
func readConnectionFacts(ctx context.Context, conn *pgx.Conn, trusted []string) (facts, error) {
	f := facts{keyDataPID: int32(conn.PgConn().PID()), settings: map[string]monitordb.SettingsRow{}}
	if f.cockroach = conn.PgConn().ParameterStatus("crdb_version"); f.cockroach != "" {
		return f, nil
	}
	// A transaction limits the search_path to these statements.
	tx, err := conn.Begin(ctx)
	if err != nil {
		return f, err
	}
	err = f.read(ctx, tx, trusted)
	switch sqlstate.Of(err) {
	case sqlstate.LockNotAvailable:
		err = fmt.Errorf("%w (another session alters a catalog, or waits to do so; if the database or the role has a low "+
			"lock_timeout, have the connection string set it to 0)", err)
	case sqlstate.QueryCanceled:
		err = fmt.Errorf("%w (if the database or the role has a low statement_timeout, have the connection string "+
			"set it to 0)", err)
	}
	return f, errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
}

func (f *facts) read(ctx context.Context, tx pgx.Tx, trusted []string) error {
	queries := monitordb.New(tx)
	if _, err := tx.Exec(ctx, lockdb.SetSearchPath+";"+lockdb.SetNoJIT+";"+lockdb.SetNoWorkers); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	rows, err := queries.Settings(ctx, settingNames)
	if err != nil {
		return fmt.Errorf("read pg_settings: %w", err)
	}
	for _, row := range rows {
		f.settings[row.Name] = row
	}
	if err := queries.BoundLockWaits(ctx); err != nil {
		return fmt.Errorf("set lock_timeout: %w", err)
	}
	if f.connection, err = queries.Connection(ctx); err != nil {
		return fmt.Errorf("ask about the connection: %w", err)
	}
	if f.snapshots, err = queries.Snapshots(ctx); err != nil {
		return fmt.Errorf("read pg_stat_activity: %w", err)
	}
	if f.connections, err = queries.Connections(ctx); err != nil {
		return fmt.Errorf("count connections: %w", err)
	}
	if f.schema.SchemaRightsRow, err = queries.SchemaRights(ctx); err != nil {
		return fmt.Errorf("ask about the rights on schema pglock: %w", err)
	}
	f.schema.named = trusted
	if f.schema.looked, err = trust.Look(ctx, tx, trusted); err != nil {
		return fmt.Errorf("look at schema pglock: %w", err)
	}
	if f.lockWorks, err = queries.LockWorks(ctx, rand.Int64()); err != nil { // a lock that no other program uses
		return fmt.Errorf("try an advisory lock: %w", err)
	}
	return nil
}
