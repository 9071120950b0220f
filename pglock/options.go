package pglock

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Option configures a [Locker].
type Option interface{ applyLocker(*lockerConfig) error }

// LockOption configures one acquisition by a [Locker]: Lock, TryLock, LockAll, TryLockAll, Do and TryDo.
type LockOption interface{ applyLock(*lockConfig) error }

// TxOption configures one lock of a transaction: LockTx, TryLockTx, LockAllTx, QueueLockTx and BeginFunc.
type TxOption interface{ applyTx(*txConfig) error }

// AcquireOption fits wherever a lock is acquired, in a transaction or by a [Locker].
type AcquireOption interface {
	LockOption
	TxOption
}

// CommonOption fits a [Locker] and a lock of a transaction.
type CommonOption interface {
	Option
	TxOption
}

// Shared asks for a shared lock. Any number of sessions may hold a lock shared, but not while another holds it
// exclusively. A waiting exclusive request is not overtaken by later shared ones.
func Shared() AcquireOption {
	return acquireOption(func(a *acquisition) error {
		a.shared = true
		return nil
	})
}

// MaxWait bounds the wait for a lock to d, after which the call returns a *[WaitError]. The default is to wait for
// as long as the context lasts. In a transaction d is rounded up to milliseconds and is at most 24 days. It replaces
// the session's own lock_timeout for this one wait, and the transaction can continue afterwards (but see
// [QueueLockTx]).
//
// With zero the call does not wait, like TryLock. A negative d is an error, and so is MaxWait given to a call that
// never waits.
func MaxWait(d time.Duration) AcquireOption {
	return acquireOption(func(a *acquisition) error {
		if d < 0 {
			return fmt.Errorf("pglock: MaxWait(%v): the duration is negative", d)
		}
		a.maxWait, a.bounded = d, true
		return nil
	})
}

// MaxHold ends the lock d after it was acquired, whether or not its holder has finished: its Context and Done end, Err
// is a *[LostError] with reason max-hold, and the lock is released for others. [Lock.Extend] moves that moment. The
// default is no bound. A d that is not positive is an error.
func MaxHold(d time.Duration) LockOption {
	return lockOption(func(c *lockConfig) error { return positive("MaxHold", d, &c.maxHold) })
}

// AllowStaleSnapshot lets a REPEATABLE READ or SERIALIZABLE transaction take the lock. The snapshot of such a
// transaction is taken before the lock is granted, so it may not show what the last holder committed
// (https://www.postgresql.org/docs/current/transaction-iso.html). Use it for locks that protect something outside the
// database, or where serialization failures are retried anyway.
func AllowStaleSnapshot() TxOption {
	return txOption(func(c *txConfig) error {
		c.allowStale = true
		return nil
	})
}

// AllowStandby lets locks be taken on a hot standby. They exclude only sessions of that server, and none on the primary
// or on another standby.
func AllowStandby() CommonOption {
	return commonOption{
		lockerOption: func(c *lockerConfig) error {
			c.postgres.AllowStandby = true
			return c.postgresOnly("AllowStandby")
		},
		txOption: func(c *txConfig) error {
			c.allowStandby = true
			return nil
		},
	}
}

// AllowPooler says that the proxy between client and server keeps one server session for each client session, as
// PgBouncer does with pool_mode = session. It removes the guard against proxies ([ErrPooler]); behind a proxy that does
// not keep sessions, locks would be orphaned and shared with other clients. It must also reset a session before the
// next client gets it (PgBouncer: server_reset_query, DISCARD ALL by default); otherwise locks and settings pass to
// that client.
func AllowPooler() Option {
	return lockerOption(func(c *lockerConfig) error {
		c.postgres.AllowPooler = true
		return c.postgresOnly("AllowPooler")
	})
}

// WithLogger makes the Locker log to l: as warnings lost locks, long waits ([WithWarnAfter]), locks that a Close
// waits for, and names that could not be recorded; as debug messages sessions that were opened and closed. The
// default is what [slog.Default] returns when the Locker is made; [slog.DiscardHandler] ends the log. [LockTx] and
// [LockAllTx] log their waits after 5 s and at each doubling, without the holder; [Lock.GuardTx] after d of WithWarnAfter. Locks in
// a batch do not. A nil logger is an error.
func WithLogger(l *slog.Logger) CommonOption {
	set := func(to **slog.Logger) error {
		if l == nil {
			return errors.New("pglock: WithLogger: the logger is nil")
		}
		*to = l
		return nil
	}
	return commonOption{
		func(c *lockerConfig) error { return set(&c.env.Logger) },
		func(c *txConfig) error { return set(&c.logger) },
	}
}

// WithWarnAfter sets how long a call waits until the log says so, with the key, the holder, and since when. The line
// is repeated each time the wait has doubled. One line covers all calls of this process that wait for a key. The
// default is 5 s. Candidates for a leader's lock and runs of a job (packages leader and schedule) wait silently. A d
// that is not positive is an error.
func WithWarnAfter(d time.Duration) Option {
	return lockerOption(func(c *lockerConfig) error { return positive("WithWarnAfter", d, &c.warnAfter) })
}

// WithLease sets how long a client that has fallen silent keeps its locks: the server frees them when it has heard
// nothing for d, and the client stops trusting them a tenth earlier. The default is 15 s; less than 1 s or more than 24
// h is an error. A short lease frees the locks of a dead client sooner and survives shorter interruptions of the
// network.
func WithLease(d time.Duration) Option {
	return lockerOption(func(c *lockerConfig) error {
		if d < minLease || d > maxLease {
			return fmt.Errorf("pglock: WithLease(%v): the lease must be between %v and %v", d, minLease, maxLease)
		}
		c.env.Lease = d
		return nil
	})
}

// WithNames records the names of the keys that this Locker locks in the table pglock.names, so that the monitor
// shows names instead of numbers. Names are written in the background, on no session that holds locks, once for each
// name and process. The monitor shows a name some moments after its first lock. It needs the schema pglock:
// [Locker.Ping] says so with [ErrSchemaMissing]; locks work regardless. Locks of transactions (LockTx and its
// relatives) are not recorded: their names can be registered once, with select pglock.register('name', …). Names are
// never removed: if you lock millions of different ones, delete old rows yourself.
func WithNames() Option {
	return lockerOption(func(c *lockerConfig) error {
		c.postgres.RecordNames = true
		return c.postgresOnly("WithNames")
	})
}

// WithTrustedOwner names roles that may own the schema pglock which the Locker uses for [WithNames], [Lock.Fence],
// package schedule and locks in rows (package rowlock). Using a schema can execute its owner's code with the rights
// of the Locker's role. So the schema of a role that is not trusted is not used: [ErrUntrusted]. It is for the usual
// deployment in which one role owns the schema and another takes the locks. Packages once and ratelimit, which need
// no Locker, have an option of the same name.
//
// The current role and superusers are trusted without being named (docs/security.md). A role that does not exist is an
// error where names are recorded. An empty name is an error. It is for PostgreSQL only.
func WithTrustedOwner(roles ...string) Option {
	return lockerOption(func(c *lockerConfig) error {
		if slices.Contains(roles, "") {
			return errors.New("pglock: WithTrustedOwner: the name of a role is empty")
		}
		c.postgres.TrustedOwners = append(c.postgres.TrustedOwners, roles...)
		return c.postgresOnly("WithTrustedOwner")
	})
}

// WithHandoffLimit bounds how often (n) and for how long (d) a lock is handed off among the goroutines of this process,
// or shared by more of them, without asking the server. Then it is released, or the server asked whether a writer waits,
// so that other processes get their turn. The default is 1,000 times and 20 ms. n = 0 disables it. A negative n or d is
// an error.
func WithHandoffLimit(n int, d time.Duration) Option {
	return lockerOption(func(c *lockerConfig) error {
		if n < 0 || d < 0 {
			return fmt.Errorf("pglock: WithHandoffLimit(%d, %v): a limit is negative", n, d)
		}
		c.handoffs, c.handoffFor = n, d
		return nil
	})
}

// WithMaxHeld bounds how many keys this Locker holds on the server or asks it for at once; one more is
// [ErrTooManyLocks]. The default is a quarter of the server's lock table (max_locks_per_transaction × (max_connections
// + max_prepared_transactions)): when that table is full, every session of the server gets errors, and new ones cannot
// connect. It is for locks of sessions only. An n below 1 is an error.
func WithMaxHeld(n int) Option {
	return atLeastOne("WithMaxHeld", n, func(c *lockerConfig) { c.postgres.MaxKeys = n })
}

// WithSessions bounds the number of server sessions that carry locks which were free when they were requested. Each
// session carries any number of locks, and goroutines that lock at the same time share statements, so the default of 2
// serves any number of goroutines. A further session is opened only when all others are busy, and not for a while after
// the server has refused one. An n below 1 is an error.
func WithSessions(n int) Option {
	return atLeastOne("WithSessions", n, func(c *lockerConfig) { c.postgres.Sessions = n })
}

// WithMaxWaitSessions bounds the number of server sessions that wait in the server's queue, or hold a lock for which
// they waited there. Each is for one lock. The default is 16. Waiters beyond the bound, or for which the server has
// no room (max_connections, a role's limit), have no place in the server's queue: they poll, with pauses of up to a
// second and a half. The longest poller gets the next free session. A polling waiter can starve while n others wait
// for locks that are not released, if other processes always queue for its lock. An n below 1 is an error.
func WithMaxWaitSessions(n int) Option {
	return atLeastOne("WithMaxWaitSessions", n, func(c *lockerConfig) { c.postgres.MaxWaitSessions = n })
}

// WithApplicationName names the Locker's own sessions in pg_stat_activity, the monitor and the errors of waiters
// for its locks. The default is the application name of the connection's configuration, or else the program's name.
//
// A mark follows the name, as in "billing (pglock 1f3a9c42)": eight random hexadecimal digits, the same for all
// sessions of the process, so that the monitor can group them. PostgreSQL keeps 63 bytes of name and mark; a longer
// name is cut.
func WithApplicationName(name string) Option {
	return lockerOption(func(c *lockerConfig) error {
		if name == "" {
			return errors.New("pglock: WithApplicationName: the name is empty")
		}
		c.postgres.Application = name
		return c.postgresOnly("WithApplicationName")
	})
}

// positive sets a duration that an option has got.
func positive(name string, d time.Duration, to *time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("pglock: %s(%v): the duration is not positive", name, d)
	}
	*to = d
	return nil
}

// atLeastOne is an option for PostgreSQL only that takes a number.
func atLeastOne(name string, n int, set func(*lockerConfig)) Option {
	return lockerOption(func(c *lockerConfig) error {
		if n < 1 {
			return fmt.Errorf("pglock: %s(%d): there must be at least 1", name, n)
		}
		set(c)
		return c.postgresOnly(name)
	})
}

type lockerOption func(*lockerConfig) error

func (o lockerOption) applyLocker(c *lockerConfig) error { return o(c) }

type lockOption func(*lockConfig) error

func (o lockOption) applyLock(c *lockConfig) error { return o(c) }

type txOption func(*txConfig) error

func (o txOption) applyTx(c *txConfig) error { return o(c) }

type commonOption struct {
	lockerOption
	txOption
}

type acquireOption func(*acquisition) error

func (o acquireOption) applyLock(c *lockConfig) error { return o(&c.acquisition) }
func (o acquireOption) applyTx(c *txConfig) error     { return o(&c.acquisition) }

// acquisition is what locks of transactions and of Lockers have in common.
type acquisition struct {
	shared  bool
	maxWait time.Duration
	bounded bool // maxWait was given
}

// wait reports whether the call may wait; try is set for calls that never do.
func (a acquisition) wait(try bool) (bool, error) {
	if try && a.bounded {
		return false, errors.New("pglock: MaxWait contradicts a call that never waits (use Lock with MaxWait instead)")
	}
	return !try && !a.never(), nil
}

// never reports whether MaxWait(0) was given.
func (a acquisition) never() bool { return a.bounded && a.maxWait == 0 }

type lockConfig struct {
	acquisition
	maxHold time.Duration
	outage  time.Duration // RetryUnavailable; 0: none
	use     *Use          // nil: UseLock
}

func (c *lockConfig) read(opts []LockOption) error {
	for _, opt := range opts {
		if opt == nil {
			return errors.New("pglock: a LockOption is nil")
		}
		if err := opt.applyLock(c); err != nil {
			return err
		}
	}
	return nil
}

type txConfig struct {
	tie *placedTx // of the transaction, which is to be identified
	acquisition
	derived                  bool // maxWait comes from the context's deadline
	allowStale, allowStandby bool
	observer                 Observer
	logger                   *slog.Logger
}

func newTxConfig(opts []TxOption) (txConfig, error) {
	c := txConfig{logger: slog.Default()}
	for _, opt := range opts {
		if opt == nil {
			return c, errors.New("pglock: a TxOption is nil")
		}
		if err := opt.applyTx(&c); err != nil {
			return c, err
		}
	}
	return c, nil
}
