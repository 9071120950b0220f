package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/examples/billing/locks"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// process is one of several processes that serve the same database. The test decides what mail returns.
type process struct {
	url    string
	locker *pglock.Locker
}

func start(t *testing.T, pool *pgxpool.Pool, mail func(ctx context.Context, tenant, month string, cents int64) error) process {
	t.Helper()
	must.Succeed(t, install(t.Context(), pool))
	locker, err := pglock.New(pool)
	must.Succeed(t, err)
	server := httptest.NewServer(newService(pool, locker, mail).handler())
	t.Cleanup(func() {
		server.Close()
		must.Succeed(t, locker.Close(context.Background()))
	})
	return process{server.URL, locker}
}

// want sends a request and compares the answer.
func (p process) want(t *testing.T, request string, status int, text string) {
	t.Helper()
	if got, body := p.do(t, request); got != status || !strings.Contains(body, text) {
		t.Errorf("%s: got %d and %s, want %d and %s", request, got, body, status, text)
	}
}

func (p process) do(t *testing.T, request string) (status int, body string) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, nil)
	must.Succeed(t, err)
	response, err := http.DefaultClient.Do(r)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, response.Body.Close()) }()
	text, err := io.ReadAll(response.Body)
	must.Succeed(t, err)
	return response.StatusCode, string(text)
}

func mailed(context.Context, string, string, int64) error { return nil }

func TestBillingAddsAndPaysInvoices(t *testing.T) {
	p := start(t, testenv.Database(t).Pool(t), mailed)
	p.want(t, "POST /tenants/acme/invoices/1?cents=1000", 200, `"Cents":1000`)
	p.want(t, "POST /tenants/acme/invoices/2?cents=500", 200, `"ID":2`)
	p.want(t, "POST /invoices/1/pay", 200, `{"paid":1}`)
	p.want(t, "POST /invoices/1/pay", 409, "has been paid")
	p.want(t, "POST /invoices/x/pay", 400, "want a number")
	p.want(t, "POST /tenants/a%00b/invoices/3?cents=1", 400, "NUL")
	p.want(t, "POST /tenants/acme/close/2026-11", 200, `"Cents":500`)
	p.want(t, "GET /tenants/acme/statements", 200, `{"Month":"2026-11","Cents":500}`)
}

// TestBillingClosesAMonthInOneProcess does everything else while one process sends the mail.
func TestBillingClosesAMonthInOneProcess(t *testing.T) {
	pool := testenv.Database(t).Pool(t)
	atMail, goOn := make(chan bool), make(chan bool)
	closing := start(t, pool, func(context.Context, string, string, int64) error {
		atMail <- true
		<-goOn
		return nil
	})
	other := start(t, pool, mailed)
	other.want(t, "POST /tenants/acme/invoices/1?cents=1000", 200, "")

	done := make(chan bool)
	go func() {
		closing.want(t, "POST /tenants/acme/close/2026-11", 200, `"Cents":1000`)
		close(done)
	}()
	<-atMail
	other.want(t, "POST /tenants/acme/close/2026-11", 423, "tenant:acme")
	other.want(t, "POST /tenants/acme/invoices/2?cents=1", 423, "query AddInvoice")
	other.want(t, "POST /tenants/globex/invoices/3?cents=1", 200, "")
	other.want(t, "POST /invoices/1/pay", 200, "") // which has another lock
	goOn <- true
	<-done
	other.want(t, "POST /tenants/acme/invoices/2?cents=1", 200, "")
	other.want(t, "GET /tenants/acme/statements", 200, `"Cents":1000`)
}

// endSession terminates a session, and returns when it has ended.
func endSession(pool *pgxpool.Pool, pid int32) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		var there bool
		err := pool.QueryRow(ctx, "SELECT bool_or(pg_terminate_backend(pid)) IS NOT NULL FROM pg_stat_activity WHERE pid = $1", pid).Scan(&there)
		if err != nil || !there {
			return err
		}
	}
}

// TestBillingWritesNoStatementWithoutItsLock ends the session with the lock while the month is being closed.
func TestBillingWritesNoStatementWithoutItsLock(t *testing.T) {
	pool := testenv.Database(t).Pool(t)
	var p process
	p = start(t, pool, func(ctx context.Context, tenant, _ string, _ int64) error {
		holders, err := p.locker.Holders(ctx, locks.Tenant(tenant))
		if err != nil || len(holders) != 1 {
			t.Errorf("the holders are %v: %v", holders, err)
			return err
		}
		return endSession(pool, holders[0].PID)
	})
	p.want(t, "POST /tenants/acme/close/2026-11", 503, "lost")
	p.want(t, "GET /tenants/acme/statements", 200, "null")
}
