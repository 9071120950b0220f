package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/examples/web"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func account(r *http.Request) string { return r.Header.Get("Account") }

// send returns the answer to an order.
func send(h http.Handler, account, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
	r.Header.Set("Account", account)
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestWebOrdersAreCreatedOnceForAKey(t *testing.T) {
	pool := testenv.Database(t).Pool(t)
	must.Succeed(t, migrations.Up(t.Context(), pool))
	_, err := pool.Exec(t.Context(), "create table orders (id bigint generated always as identity, item text)")
	must.Succeed(t, err)
	entered, goOn := make(chan struct{}, 1), make(chan struct{})
	orders := &web.Orders{Pool: pool, Account: account, Insert: func(ctx context.Context, tx pgx.Tx, o web.Order) (id int64, err error) {
		if o.Item == "slow" {
			entered <- struct{}{}
			<-goOn
		}
		return id, tx.QueryRow(ctx, "insert into orders (item) values ($1) returning id", o.Item).Scan(&id)
	}}
	first, again := send(orders, "a", "1", `{"item":"tea"}`), send(orders, "a", "1", `{"item":"tea"}`)
	if first.Code != http.StatusOK || again.Code != http.StatusOK || first.Body.String() != again.Body.String() {
		t.Errorf("the answers are %d %s and %d %s", first.Code, first.Body, again.Code, again.Body)
	}
	if first.Header().Get("Idempotency-Replayed") != "" || again.Header().Get("Idempotency-Replayed") != "true" {
		t.Error("the replay is not marked as a replay")
	}
	if w := send(orders, "a", "1", `{"item":"coffee"}`); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("another request with the same key is answered with %d", w.Code)
	}
	if w := send(orders, "b", "1", `{"item":"tea"}`); w.Code != http.StatusOK || w.Body.String() == first.Body.String() {
		t.Errorf("another account's request is answered with %d %s", w.Code, w.Body)
	}
	if w := send(orders, "a", "", `{"item":"tea"}`); w.Code != http.StatusBadRequest {
		t.Errorf("a request without a key is answered with %d", w.Code)
	}
	slow := make(chan *httptest.ResponseRecorder, 1)
	go func() { slow <- send(orders, "a", "2", `{"item":"slow"}`) }()
	<-entered
	if w := send(orders, "a", "2", `{"item":"slow"}`); w.Code != http.StatusConflict {
		t.Errorf("a request that is being carried out is answered with %d", w.Code)
	}
	close(goOn)
	if w := <-slow; w.Code != http.StatusOK {
		t.Errorf("the slow request is answered with %d", w.Code)
	}
	var n int
	must.Succeed(t, pool.QueryRow(t.Context(), "select count(*) from orders").Scan(&n))
	if n != 3 {
		t.Errorf("there are %d orders, want 3", n)
	}
}

func TestWebLimitSaysWhatIsLeft(t *testing.T) {
	pool := testenv.Database(t).Pool(t)
	must.Succeed(t, migrations.Up(t.Context(), pool))
	limiter, err := ratelimit.New(pool, pglock.NewKey("limits"), ratelimit.WithTimeout(10*time.Second))
	must.Succeed(t, err)
	passed := 0
	h := web.Limited(limiter, ratelimit.PerHour(2), account, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
	for i, want := range []struct {
		status           int
		remaining, retry string
	}{{200, "1", ""}, {200, "0", ""}, {429, "0", "1800"}} {
		w := send(h, "a", "", "")
		got := w.Header()
		if w.Code != want.status || got.Get("RateLimit-Limit") != "2" || got.Get("RateLimit-Remaining") != want.remaining ||
			got.Get("RateLimit-Reset") == "" || (got.Get("Retry-After") == "") != (want.retry == "") {
			t.Errorf("answer %d is %d with %v", i+1, w.Code, got)
		}
	}
	if w := send(h, "b", "", ""); w.Code != http.StatusOK || passed != 3 {
		t.Errorf("another account is answered with %d, and %d requests were passed on", w.Code, passed)
	}
}
