package pglock_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// lying is a configuration whose connections after the first honest ones call functions that lock nothing.
func lying(t *testing.T, db *testenv.DB, honest int, functions string) *pgxpool.Config {
	t.Helper()
	for _, args := range []string{"int8", "int4, int4"} {
		create := "create function public.%s_lie(%s) returns bool language sql volatile as 'select true'"
		txExec(t, db.Connect(t), fmt.Sprintf(create, functions, args))
	}
	config := db.Config(t)
	c := config.ConnConfig
	server := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	old, lie := []byte("pg_catalog."+functions+"("), []byte("public."+functions+"_lie(") // of the same length
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	txCheck(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for n := 0; ; n++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			lies := n >= honest
			running.Go(func() {
				forward(client, server, func(b []byte) []byte {
					if !lies {
						return b
					}
					return bytes.ReplaceAll(b, old, lie)
				})
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	address := listener.Addr().(*net.TCPAddr)
	c.Host, c.Port, c.Fallbacks = address.IP.String(), uint16(address.Port), nil
	return config
}

// forward forwards between a client and a server until one of them ends. It changes what the client sends.
func forward(client net.Conn, server string, change func([]byte) []byte) {
	defer client.Close()
	far, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(client, far)
		_ = client.Close()
	}()
	defer far.Close()
	for buf := make([]byte, 1<<16); ; {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if _, err := far.Write(change(buf[:n])); err != nil {
			return
		}
	}
}

// wantRefused fails the test unless the first lock of a new Locker is refused for the reason.
func wantRefused(t *testing.T, config *pgxpool.Config, reason error) {
	t.Helper()
	l, _ := openConfig(t, config)
	lock, err := l.Lock(minuteContext(t), pglock.NewKey("refused"))
	if !errors.Is(err, reason) || errors.Is(err, pglock.ErrUnavailable) {
		t.Errorf("the error is %v, want one that matches %q", err, reason)
	}
	if err == nil {
		mustUnlock(t, lock)
	}
}

// wantGranted returns a lock of a new Locker, which is closed when the lock is unlocked by release.
func wantGranted(t *testing.T, config *pgxpool.Config) (release func()) {
	t.Helper()
	l, _ := openConfig(t, config)
	lock := mustLock(t, l, pglock.NewKey(rand.Text()))
	return func() {
		mustUnlock(t, lock)
		closeWithinAMinute(t, l)
	}
}

// The first session looks itself up. Functions may also say that they are not implemented.
func TestFaultsFunctionsThatLockNothingAreRefused(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	config := lying(t, db, 0, "pg_try_advisory_lock")
	wantRefused(t, config, pglock.ErrUnsupported)
	txExec(t, db.Connect(t), "create or replace function public.pg_try_advisory_lock_lie(int4, int4) returns bool "+
		"language plpgsql as 'begin raise feature_not_supported; end'")
	wantRefused(t, config, pglock.ErrUnsupported)
}

// Later sessions must be refused the identity of the first one. That is how they find that they share a server session
// too.
func TestFaultsASessionThatIsSharedIsRefused(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	config := lying(t, db, 1, "pg_try_advisory_lock_shared")
	held := wantGranted(t, config)
	wantRefused(t, config, pglock.ErrPooler)
	held()

	used := db.Config(t) // by another client, which has prepared a statement of the same name
	used.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		_, err := conn.Prepare(ctx, "pglock_try_"+strconv.Itoa(int(conn.PID())), "select 1", nil)
		return err
	}
	wantRefused(t, used, pglock.ErrPooler)
}

// A role that may not ask is not refused.
func TestFaultsARoleWithoutRightsProvesNothing(t *testing.T) {
	t.Parallel()
	db := testenv.On(t, testenv.NewServer(t, nil))
	txExec(t, txConnect(t, db.ConnString(), nil), "revoke execute on function pg_try_advisory_lock(int4, int4) from public",
		"revoke execute on function pg_try_advisory_lock_shared(int4, int4) from public")
	config, err := pgxpool.ParseConfig(db.Role(t, "tenant"))
	txCheck(t, err)
	held := wantGranted(t, config)
	wantGranted(t, config)()
	held()
}

// Something in between leads to one server and then to another. The second one is refused while a session on the first
// lives, unless it was promoted since: after a failover the old primary may live on.
func TestFaultsServersInTurnAreRefused(t *testing.T) {
	t.Parallel()
	old, other := testenv.NewServer(t, nil), testenv.NewServer(t, nil)
	promoted := txStandby(t, old)
	txCheck(t, promoted.Promote(t.Context()))
	var to atomic.Pointer[pgserver.Server]
	_, address := testenv.NewMovingProxy(t, func() string {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(to.Load().Port()))
	})
	config := func(server *pgserver.Server) *pgxpool.Config {
		to.Store(server)
		config, err := pgxpool.ParseConfig(server.ConnString("postgres"))
		txCheck(t, err)
		c := config.ConnConfig
		c.Host, c.Port, c.Fallbacks = address.IP.String(), uint16(address.Port), nil
		return config
	}
	before := wantGranted(t, config(old))
	wantRefused(t, config(other), pglock.ErrPooler)
	after := wantGranted(t, config(promoted))
	wantRefused(t, config(old), pglock.ErrPooler)
	before()
	after()
	wantGranted(t, config(other))() // no session is left that could be a witness
}
