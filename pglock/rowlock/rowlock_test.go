package rowlock_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

var key = pglock.NewKey("invoice:42")

func wantIs(t *testing.T, err error, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want an error that matches %q", err, want)
	}
}

func lock(t *testing.T, l *pglock.Locker, opts ...pglock.LockOption) *pglock.Lock {
	t.Helper()
	got, err := l.Lock(t.Context(), key, opts...)
	must.Succeed(t, err)
	return got
}

func unlock(t *testing.T, lock *pglock.Lock) {
	t.Helper()
	must.Succeed(t, lock.Unlock(t.Context()))
}

var modes = map[string]pgx.QueryExecMode{
	"cache statements": pgx.QueryExecModeCacheStatement, "cache descriptions": pgx.QueryExecModeCacheDescribe,
	"describe": pgx.QueryExecModeDescribeExec, "exec": pgx.QueryExecModeExec, "simple": pgx.QueryExecModeSimpleProtocol,
}

// Whatever role, database and pool default to, directly and through the pooler.
func TestLocksDoNotDependOnDefaults(t *testing.T) {
	t.Parallel()
	owner, db := installed(t)
	connString := db.Role(t, "pglock_app")
	direct, err := pgxpool.ParseConfig(connString)
	must.Succeed(t, err)
	role := direct.ConnConfig.User
	_, err = owner.Exec(t.Context(), migrations.LockerGrants(role))
	must.Succeed(t, err)
	for name, settings := range map[string]string{
		"none":            "application_name = ''",
		"repeatable read": "default_transaction_isolation = 'repeatable read'",
		"serializable":    "default_transaction_isolation = serializable",
		"read only":       "default_transaction_read_only = on",
		"not durable":     "synchronous_commit = off",
		"costly plans": "jit_above_cost = 0; ALTER ROLE {role} SET enable_nestloop = off; ALTER ROLE {role} SET enable_sort = off; " +
			"ALTER ROLE {role} SET enable_seqscan = off; ALTER ROLE {role} SET enable_indexscan = off",
		"odd": "search_path = ''; ALTER ROLE {role} SET datestyle = 'German'; ALTER ROLE {role} SET client_encoding = 'LATIN1'",
	} {
		for _, sql := range strings.Split("ALTER ROLE {role} RESET ALL; ALTER ROLE {role} SET "+settings, ";") {
			_, err := owner.Exec(t.Context(), strings.ReplaceAll(sql, "{role}", pgx.Identifier{role}.Sanitize()))
			must.Succeed(t, err)
		}
		// A pooler keeps the connections of before, and tells clients their settings.
		bouncer, err := pgxpool.ParseConfig(testenv.PgBouncer(t, db, testenv.TransactionPooling))
		must.Succeed(t, err)
		bouncer.ConnConfig.User, bouncer.ConnConfig.Password = role, direct.ConnConfig.Password
		for via, config := range map[string]*pgxpool.Config{"directly": direct, "pooled": bouncer} {
			for mode, exec := range modes {
				if mode != "exec" && (name != "none" || via == "directly") { // modes and defaults have nothing to do with each other
					continue
				}
				what := fmt.Sprintf("%s, %s, %s", name, via, mode)
				config := config.Copy()
				config.ConnConfig.DefaultQueryExecMode = exec
				pool, err := pgxpool.NewWithConfig(t.Context(), config)
				must.Succeed(t, err)
				l, err := rowlock.New(pool)
				must.Succeed(t, err)
				held, err := l.Lock(t.Context(), key)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				must.Succeed(t, held.Verify(t.Context()))
				tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
				must.Succeed(t, err)
				if err := held.GuardTx(t.Context(), tx); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				must.Succeed(t, tx.Commit(t.Context()))
				unlock(t, held)
				must.Succeed(t, l.Close(t.Context()))
				pool.Close() // before the role's settings change
			}
		}
	}
}

// A call waits for whatever has the row of its holder locked, though the role bounds statements, and when it is given up
// the server is not asked to cancel it.
func TestACallIsNeitherCutShortNorCancelled(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	config := pool.Config()
	config.ConnConfig.RuntimeParams["statement_timeout"] = "200ms"
	dial, cancels := config.ConnConfig.DialFunc, atomic.Int32{}
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &watched{Conn: conn, cancels: &cancels}, err
	}
	bounded, err := pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	defer bounded.Close()
	l := open(t, bounded, pglock.WithLease(time.Hour))
	must.Succeed(t, l.Ping(t.Context()))
	block := func(while func()) {
		tx, err := pool.Begin(t.Context())
		must.Succeed(t, err)
		_, err = tx.Exec(t.Context(), "SELECT FROM pglock.holders FOR UPDATE")
		must.Succeed(t, err)
		defer func() { must.Succeed(t, tx.Rollback(t.Context())) }()
		while()
	}
	waits := "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND " +
		"query_start < clock_timestamp() - interval '300 ms'"
	held := make(chan *pglock.Lock, 1)
	block(func() {
		go func() { held <- lock(t, l) }()
		testenv.WaitUntil(t, "the call has waited for longer than the bound", func() bool { return must.One[bool](t, pool, waits) })
	})
	unlock(t, <-held)
	giveUp := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := l.TryLock(ctx, key)
		return err
	}
	block(func() {
		wantIs(t, giveUp(), pglock.ErrUnavailable)
		testenv.WaitUntil(t, "a call is given up, and settled on another connection", func() bool {
			_ = giveUp() // one whose time ends between two turns leaves nothing to settle
			return must.One[bool](t, pool, waits+" AND query LIKE '%lease_settle%'")
		})
	})
	if n := cancels.Load(); n > 0 {
		t.Errorf("the server was asked %d times to cancel a call", n)
	}
	unlock(t, lock(t, l))
}

// watched counts the requests to cancel a statement.
type watched struct {
	net.Conn
	cancels *atomic.Int32
}

func (w *watched) Write(b []byte) (int, error) {
	if len(b) == 16 && binary.BigEndian.Uint32(b[4:]) == 80877102 {
		w.cancels.Add(1)
	}
	return w.Conn.Write(b)
}

func TestNothingIsLeftInThePoolersSessions(t *testing.T) {
	t.Parallel()
	owner, db := installed(t)
	through := testenv.PgBouncer(t, db, testenv.TransactionPooling)
	l, other := open(t, connect(t, through)), open(t, connect(t, through))
	held := lock(t, l)
	_, err := other.Lock(t.Context(), key, pglock.MaxWait(20*time.Millisecond))
	wantIs(t, err, pglock.ErrNotAcquired)
	unlock(t, held)
	must.Succeed(t, l.Close(t.Context()))
	must.Succeed(t, other.Close(t.Context()))
	owner.Close()
	if traces := testenv.PooledTraces(t, db, through); len(traces) > 0 {
		t.Errorf("in the sessions of the pooler are: %v", traces)
	}
}

func TestAWaitErrorNamesTheHolder(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	l, other := open(t, pool, pglock.WithApplicationName("billing")), open(t, pool)
	before := time.Now().Add(-time.Minute) // by another clock
	defer unlock(t, lock(t, l))
	_, err := other.Lock(t.Context(), key, pglock.MaxWait(20*time.Millisecond))
	wait, ok := errors.AsType[*pglock.WaitError](err)
	if !ok || len(wait.Holders) != 1 {
		t.Fatalf("%v", err)
	}
	h := wait.Holders[0]
	if h.Application != "billing" || h.User == "" || !strings.Contains(h.Client, ", process ") || h.Since.Before(before) || h.Self {
		t.Errorf("%+v", h)
	}
	if text := err.Error(); !strings.Contains(text, "billing") || !strings.Contains(text, "since ") {
		t.Error(text)
	}
}

func TestOptionsForSessionsAreRefused(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	for name, opt := range map[string]pglock.Option{
		"AllowPooler": pglock.AllowPooler(), "WithSessions": pglock.WithSessions(3),
	} {
		_, err := rowlock.New(pool, opt)
		wantIs(t, err, pglock.ErrUnsupported)
		if !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
	if _, err := rowlock.New(nil); err == nil {
		t.Error("a nil pool")
	}
	l, err := rowlock.New(pool, pglock.WithTrustedOwner("migrator"), pglock.WithApplicationName("a"))
	must.Succeed(t, err)
	must.Succeed(t, l.Close(t.Context()))
}

func TestWithoutRightsAnErrorSaysSo(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	_, err := open(t, connect(t, db.Role(t, "pglock_stranger"))).TryLock(t.Context(), key)
	wantIs(t, err, pglock.ErrDenied)
}

// onLink returns a pool through a network that can be cut.
func onLink(t *testing.T, db *testenv.DB) (*testenv.Link, *pgxpool.Pool) {
	t.Helper()
	link := testenv.NewLink(0)
	t.Cleanup(link.Close)
	config := db.Config(t)
	config.ConnConfig.DialFunc = link.Dial
	config.ConnConfig.Fallbacks = nil
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	return link, pool
}

// All connections fall silent, and new ones work, as after a failover by silence.
func TestALeaseIsRenewedOnANewConnectionWhenTheOldOneIsSilent(t *testing.T) {
	t.Parallel()
	pool, db := installed(t)
	config := db.Config(t)
	links := make(chan *testenv.Link, 100)
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		link := testenv.NewLink(0)
		t.Cleanup(link.Close)
		links <- link
		return link.Dial(ctx, network, address)
	}
	app, err := pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	t.Cleanup(app.Close)
	l := open(t, app, pglock.WithLease(6*time.Second))
	held := lock(t, l)
	expires := func() (at time.Time) {
		must.Succeed(t, pool.QueryRow(t.Context(), "SELECT expires FROM pglock.holders").Scan(&at))
		return at
	}
	first := expires()
	testenv.WaitUntil(t, "the lease has been renewed", func() bool { return expires() != first })
	for range len(links) {
		(<-links).Cut(true, true)
	}
	last := expires()
	testenv.WaitUntil(t, "the lease is renewed again, or lost", func() bool { return expires() != last || held.Err() != nil })
	unlock(t, held)
}

func TestAHolderIsToldOfItsLossBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	pool, db := installed(t)
	link, cutOff := onLink(t, db)
	l, other := open(t, cutOff, pglock.WithLease(2*time.Second)), open(t, pool)
	for range 2 {
		held := lock(t, l)
		link.Cut(true, true)
		next := lock(t, other)
		if held.Err() == nil {
			t.Error("the next holder has the lock, and the first one still believes that it has it")
		}
		<-held.Done()
		if reason := (*pglock.LostError)(nil); !errors.As(held.Err(), &reason) || reason.Reason != pglock.LostLease {
			t.Errorf("the loss: %v", held.Err())
		}
		link.Cut(false, false)
		unlock(t, next)
	}
}

// The server gets the statement and the answer is lost, on the way to a TryLock, a Lock and an Unlock. The lease is so long
// that nothing else than the settlement undoes what the server has done: without it the TryLock would find its own lock.
func TestALostAnswerLeavesNothing(t *testing.T) {
	t.Parallel()
	pool, db := installed(t)
	link, cutOff := onLink(t, db)
	l, other := open(t, cutOff, pglock.WithLease(time.Hour)), open(t, pool)
	connect := func() {
		testenv.WaitUntil(t, "it has connections", func() bool {
			for range 4 { // it has as many at most
				if l.Ping(t.Context()) != nil {
					return false
				}
			}
			return true
		})
	}
	reconnect := func() {
		link.Drop()
		link.Cut(false, false)
	}
	// If another statement has the connection just then, one is dialled through the cut link, and the call is never sent.
	arrives := func(holders int) (arrived bool) {
		began := time.Now()
		testenv.WaitUntil(t, "the server has got it, or does not get it", func() bool {
			found, err := other.Holders(t.Context(), key)
			arrived = err == nil && len(found) == holders
			return arrived || time.Since(began) > 10*time.Second
		})
		return arrived
	}

	got := make(chan error, 1)
	var held *pglock.Lock
	for held == nil {
		connect()
		link.Cut(false, true)
		tried := make(chan *pglock.Lock, 1)
		go func() {
			held, err := l.TryLock(t.Context(), key)
			tried <- held
			got <- err
		}()
		sent := arrives(1)
		reconnect()
		held = <-tried
		switch err := <-got; {
		case errors.Is(err, pglock.ErrUnavailable): // the link was cut for too long
			unlock(t, lock(t, l))
		case !sent:
			must.Succeed(t, err)
			unlock(t, held)
			held = nil
		default:
			must.Succeed(t, err)
		}
	}
	must.Succeed(t, held.Verify(t.Context()))
	refused := must.One[bool](t, pool, `SELECT h.floor > 0 AND h.floor < l.attempt
		FROM pglock.leases AS l JOIN pglock.holders AS h ON h.id = l.holder`)
	if !refused {
		t.Error("the server does not refuse the statement whose answer was lost")
	}

	connect()
	link.Cut(false, true)
	go func() { got <- held.Unlock(t.Context()) }()
	arrives(0)
	reconnect()
	if err := <-got; err != nil {
		wantIs(t, err, pglock.ErrUnavailable)
	}
	unlock(t, lock(t, other))
	for sent := false; !sent; {
		connect()
		link.Cut(false, true)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := l.Lock(ctx, key)
			got <- err
		}()
		sent = arrives(1)
		cancel()
		wantIs(t, <-got, pglock.ErrUnavailable)
		reconnect()
	}
	unlock(t, lock(t, other)) // it was given back
	unlock(t, lock(t, l))
}

func TestAHolderThatTheServerEndsIsTold(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	l := open(t, pool)
	held := lock(t, l)
	endHolders(t, pool)
	var before, after time.Time
	testenv.WaitUntil(t, "its process is told", func() bool {
		must.Succeed(t, pool.QueryRow(t.Context(), "SELECT expires FROM pglock.holders").Scan(&after))
		if before.IsZero() {
			before = after
		}
		if !after.Equal(before) {
			t.Fatal("the server has renewed a holder that is over")
		}
		return held.Err() != nil
	})
	if lost := (*pglock.LostError)(nil); !errors.As(held.Err(), &lost) || lost.Reason != pglock.LostGone {
		t.Errorf("the loss: %v", held.Err())
	}
	if text := held.Err().Error(); strings.Contains(text, "session") {
		t.Errorf("no session held the lock, but the error is %q", text)
	}
	unlock(t, lock(t, l)) // as a new holder
}

// The commit waits for a standby that does not exist. When that wait is cancelled, PostgreSQL commits and warns, and no setting
// of the database keeps the warning from the client.
func TestALockThatMightNotSurviveAFailoverIsNotGranted(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, nil)
	db := testenv.On(t, server)
	pool := db.Pool(t)
	must.Succeed(t, migrations.Up(t.Context(), pool))
	_, err := pool.Exec(t.Context(), "ALTER DATABASE "+pgx.Identifier{db.Name()}.Sanitize()+" SET client_min_messages = error")
	must.Succeed(t, err)
	l, other := open(t, pool), open(t, pool)
	must.Succeed(t, l.Ping(t.Context()))
	withdraw := testenv.RequireStandby(t, db)
	got := make(chan error, 1)
	go func() {
		_, err := l.Lock(t.Context(), key)
		got <- err
	}()
	testenv.WaitUntil(t, "the call fails", func() bool {
		_, cancelErr := pool.Exec(t.Context(), `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
		must.Succeed(t, cancelErr)
		select {
		case err = <-got:
			return true
		default:
			return false
		}
	})
	withdraw()
	wantIs(t, err, pglock.ErrUnavailable)
	unlock(t, lock(t, other))
}

func TestFencesOfLocksThatArePassedOnGrowToo(t *testing.T) {
	t.Parallel()
	pool, _ := installed(t)
	l := open(t, pool)
	first := lock(t, l)
	second := make(chan *pglock.Lock, 1)
	go func() {
		next, err := l.Lock(context.Background(), key)
		if err != nil {
			t.Error(err)
		}
		second <- next
	}()
	testenv.WaitUntil(t, "it waits", func() bool { return l.Stats().Waiting == 1 })
	a, err := first.Fence(t.Context())
	must.Succeed(t, err)
	unlock(t, first)
	next := <-second
	b, err := next.Fence(t.Context())
	must.Succeed(t, err)
	unlock(t, next)
	third := lock(t, open(t, pool))
	c, err := third.Fence(t.Context())
	must.Succeed(t, err)
	unlock(t, third)
	if a >= b || b >= c {
		t.Errorf("fences %d, %d, %d", a, b, c)
	}
}

// The row that one connection adds must be found over another; a failover in between may have forgotten it.
func TestServersInTurnAreRefused(t *testing.T) {
	t.Parallel()
	one, two := testenv.NewServer(t, nil), testenv.NewServer(t, nil)
	first, second := connect(t, one.ConnString("postgres")), connect(t, two.ConnString("postgres"))
	_, err := second.Exec(t.Context(), "CREATE TABLE t (); ALTER ROLE postgres PASSWORD '"+first.Config().ConnConfig.Password+"'")
	must.Succeed(t, errors.Join(err, migrations.Up(t.Context(), first), migrations.Up(t.Context(), second))) // with other OIDs
	for want, dials := range map[error][]*pgserver.Server{nil: {one, two}, pglock.ErrPooler: {one, two, one, two}} {
		config, dialled := first.Config(), new(atomic.Int32)
		config.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
			port := dials[min(int(dialled.Add(1)), len(dials))-1].Port()
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+strconv.Itoa(port))
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		must.Succeed(t, err)
		t.Cleanup(pool.Close)
		if _, err = open(t, pool).TryLock(t.Context(), key); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
