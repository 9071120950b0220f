package pglock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres"
)

// LockTx takes the lock for the rest of the transaction tx, with pg_advisory_xact_lock; commit and rollback free it.
// It waits until it is granted, ctx ends, or [MaxWait] has passed, in one round trip whatever the connection's query
// execution mode, and works through transaction poolers.
//
// It refuses, before anything is locked, a transaction that would read older data than the lock protects
// ([ErrStaleSnapshot]) and a hot standby ([ErrStandby]); after a refusal, and after MaxWait, the transaction can go on.
// When ctx ends the wait, pgx closes the connection unless it is configured otherwise. A deadlock that PostgreSQL
// resolves against this transaction comes as its own error (40P01) and aborts the transaction, as does the session's
// own lock_timeout, which comes as a *[WaitError].
//
// The lock is PostgreSQL's own: reentrant within its transaction, freed early by ROLLBACK TO a savepoint set before it,
// and unaware of Lockers. A goroutine that holds [Locker.Lock] of a key and calls LockTx of the same key waits for
// itself.
func LockTx(ctx context.Context, tx pgx.Tx, key Key, opts ...TxOption) error {
	return lockTx(ctx, tx, key, false, opts)
}

// TryLockTx takes the lock as [LockTx] does if that needs no waiting; otherwise it returns a *[WaitError], which
// matches [ErrNotAcquired], and the transaction can go on. It is always one round trip. MaxWait is an error here.
func TryLockTx(ctx context.Context, tx pgx.Tx, key Key, opts ...TxOption) error {
	return lockTx(ctx, tx, key, true, opts)
}

func lockTx(ctx context.Context, tx pgx.Tx, key Key, try bool, opts []TxOption) error {
	c, err := newTxConfig(opts)
	if err != nil {
		return err
	}
	wait, err := c.wait(try)
	if err != nil {
		return err
	}
	if err := checkTx(tx, key); err != nil {
		return failed("lock", key, 0, err)
	}
	if wait && c.bounded {
		return boundedLockTx(ctx, tx, []Key{key}, c)
	}
	outcome, err := lockdb.New(oneRoundTrip{tx}).LockTx(ctx, lockdb.LockTxParams{
		Wait: wait, Shared: c.shared,
		Space: int16(key.k.Space), Number: key.k.Number,
		AllowStandby: c.allowStandby, AllowStale: c.allowStale,
	})
	return txResult(txOutcome(outcome), key, 0, err)
}

// LockAllTx takes all the locks for the rest of the transaction, or none of them, as [LockTx] does, in one statement
// and one round trip. Every call, in every process, takes them in one fixed order, so that calls which name the same
// keys in different orders cannot deadlock with each other. The same key twice is harmless; no keys at all do nothing.
// [MaxWait] bounds the wait for all of them together. An error of the server (not a refusal, nor MaxWait) aborts the
// transaction, whose rollback then frees those that had been taken.
func LockAllTx(ctx context.Context, tx pgx.Tx, keys []Key, opts ...TxOption) error {
	c, err := newTxConfig(opts)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return nil
	}
	if err := checkTx(tx, keys...); err != nil {
		return failed("lock", keys[0], len(keys)-1, err)
	}
	keys = inOrder(keys)
	if c.bounded {
		return boundedLockTx(ctx, tx, keys, c)
	}
	spaces, numbers := arrays(keys)
	row, err := lockdb.New(oneRoundTrip{tx}).LockAllTx(ctx, lockdb.LockAllTxParams{
		Shared: c.shared, Spaces: spaces, Numbers: numbers,
		AllowStandby: c.allowStandby, AllowStale: c.allowStale,
	})
	return txResult(txOutcome(row.Outcome), keys[0], len(keys)-1, err)
}

// TxBeginner begins transactions: a pool, a connection, or a transaction (which begins a savepoint).
type TxBeginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// BeginFunc begins a transaction, takes the lock in it as [LockTx] does, runs fn, and commits. It rolls back, which
// frees the lock, when the lock is not granted, when fn returns an error, and when fn panics. The error is fn's own,
// the lock's, or that of beginning or committing.
func BeginFunc(ctx context.Context, db TxBeginner, key Key, fn func(pgx.Tx) error, opts ...TxOption) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if err := LockTx(ctx, tx, key, opts...); err != nil {
			return err
		}
		return fn(tx)
	})
}

// boundedLockTx waits for at most c.maxWait for all keys together. See queries/locks.sql for how it survives.
func boundedLockTx(ctx context.Context, tx pgx.Tx, keys []Key, c txConfig) error {
	const statements = lockdb.BeginBoundedWait + ";\n" + lockdb.BoundedWait + ";\n" + lockdb.EndBoundedWait
	spaces, numbers := arrays(keys)
	start := driver.Now()
	tag, err := tx.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol,
		spaces, numbers, c.shared, milliseconds(c.maxWait), c.allowStandby, c.allowStale)
	outcomes := [...]txOutcome{granted, held, refusedStandby, refusedStale}
	if n := tag.RowsAffected(); err == nil && n < int64(len(outcomes)) {
		err = txResult(outcomes[n], keys[0], len(keys)-1, nil)
	} else {
		err = txResult("", keys[0], len(keys)-1, err)
	}
	if wait := (*WaitError)(nil); errors.As(err, &wait) {
		wait.Waited = driver.Now().Sub(start)
		if wait.Err == nil { // The transaction can go on, so it can be asked who is in the way.
			wait.Holders, _ = postgres.Holders(ctx, oneRoundTrip{tx}, plain(keys))
		}
	}
	return err
}

// milliseconds rounds up, and stays within lock_timeout's range of a 32-bit integer.
func milliseconds(d time.Duration) int64 {
	ms := int64((d + time.Millisecond - 1) / time.Millisecond)
	return min(max(ms, 1), math.MaxInt32)
}

// oneRoundTrip runs statements in an execution mode that needs no preparation. The modes that prepare or describe a
// statement spend a round trip on it when a connection sees it first, and named prepared statements fail behind
// transaction poolers that do not track them.
type oneRoundTrip struct{ pgx.Tx }

func (t oneRoundTrip) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return t.Tx.Exec(ctx, sql, t.with(args)...)
}

func (t oneRoundTrip) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return t.Tx.Query(ctx, sql, t.with(args)...)
}

func (t oneRoundTrip) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.Tx.QueryRow(ctx, sql, t.with(args)...)
}

func (t oneRoundTrip) with(args []any) []any {
	mode := pgx.QueryExecModeExec
	if conn := t.Conn(); conn != nil && conn.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		mode = pgx.QueryExecModeSimpleProtocol // the caller's proxy may know no other protocol
	}
	return append([]any{mode}, args...)
}

// checkTx refuses what can be refused without asking the server.
func checkTx(tx pgx.Tx, keys ...Key) error {
	for _, key := range keys {
		if err := key.check(); err != nil {
			return err
		}
	}
	if tx == nil {
		return errors.New("the transaction is nil")
	}
	return checkServer(tx.Conn())
}

// checkServer refuses servers that accept advisory locks and do nothing: CockroachDB reports itself in a parameter
// status. (A standby does too, in_hot_standby, but a pooler may hand out an old value of it; the statement itself asks.)
func checkServer(conn *pgx.Conn) error {
	if conn == nil {
		return nil
	}
	if version := conn.PgConn().ParameterStatus("crdb_version"); version != "" {
		return fmt.Errorf("%w: the server is CockroachDB (%s), whose advisory locks do nothing", ErrUnsupported, version)
	}
	return nil
}

// txOutcome is what a statement of queries/locks.sql says of a lock.
type txOutcome string

const (
	granted        txOutcome = "granted"
	held           txOutcome = "held"
	refusedStandby txOutcome = "pglock_standby"
	refusedStale   txOutcome = "pglock_stale_snapshot"
)

func (o txOutcome) err() error {
	switch o {
	case granted:
		return nil
	case held:
		return ErrNotAcquired
	case refusedStandby:
		return fmt.Errorf("%w: its advisory locks exclude nobody on another server "+
			"(connect to the primary, or use AllowStandby)", ErrStandby)
	case refusedStale:
		return fmt.Errorf("%w: the transaction is REPEATABLE READ or SERIALIZABLE "+
			"(use READ COMMITTED, or AllowStaleSnapshot)", ErrStaleSnapshot)
	}
	return fmt.Errorf("unexpected answer %q from the server", string(o))
}

func txResult(o txOutcome, key Key, more int, err error) error {
	if err == nil {
		err = o.err()
	} else {
		err = TxError(err)
	}
	switch wait := (*WaitError)(nil); {
	case err == nil:
		return nil
	case errors.As(err, &wait):
		wait.Key, wait.More = key, more
		return wait
	case err == ErrNotAcquired:
		return &WaitError{Key: key, More: more}
	}
	return failed("lock", key, more, err)
}

// inOrder sorts keys into the one order in which everything takes them, and drops duplicates.
func inOrder(keys []Key) []Key {
	keys = slices.Clone(keys)
	slices.SortStableFunc(keys, func(a, b Key) int { return a.ID().Compare(b.ID()) })
	return slices.CompactFunc(keys, Key.Equal)
}

// plain is keys as backends know them.
func plain(keys []Key) []driver.Key {
	plain := make([]driver.Key, len(keys))
	for i, key := range keys {
		plain[i] = key.k
	}
	return plain
}

func arrays(keys []Key) (spaces []int16, numbers []int64) {
	spaces, numbers = make([]int16, len(keys)), make([]int64, len(keys))
	for i, key := range keys {
		spaces[i], numbers[i] = int16(key.k.Space), key.k.Number
	}
	return spaces, numbers
}
