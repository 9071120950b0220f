package cli_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

var printedURL = regexp.MustCompile(`open (http://127\.0\.0\.1:\d+)/\?token=(\w+)`)

func TestMonitorServesAPage(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	a, b := db.Connect(t), db.Connect(t)
	_, err := a.Exec(context.Background(), "SELECT pg_advisory_lock(42)")
	must.Succeed(t, err)
	db.Queue(t, b, "SELECT pg_advisory_lock(42)")
	file := filepath.Join(t.TempDir(), "locks.rec")
	p := on(t, db, "monitor", "--http", "127.0.0.1:0", "--record", file, "--interval", "50ms").start()
	v := p.visit()
	if status, _ := v.get("/api/now"); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d", status)
	}
	v.login("/")
	testenv.WaitUntil(t, "the page shows the wait", func() bool {
		_, text := v.get("/api/now")
		return strings.Contains(text, `"lock":{"key":"@42"`) && strings.Contains(text, `"wait-began"`)
	})
	if _, text := v.get("/api/timeline?n=5"); !strings.Contains(text, `"seen":true`) {
		t.Errorf("timeline: %s", text)
	}
	_, err = a.Exec(context.Background(), "SELECT pg_advisory_unlock(42)")
	must.Succeed(t, err)
	db.WaitForWaiters(t, 0)
	p.signal(os.Interrupt)
	wantCode(t, p.end(), 0)
	r := command(t, nil, "replay", file, "--events").run()
	wantCode(t, r, 0)
	wantText(t, r.stdout, "@42: ")
}

func TestMonitorDoesNotServeThePageInsecurely(t *testing.T) {
	t.Parallel()
	for _, address := range []string{":0", "0.0.0.0:0", "192.0.2.1:8080", "[::]:0"} {
		r := command(t, nil, "monitor", "--http", address).run()
		wantCode(t, r, 64)
		wantText(t, r.stderr, "--insecure-http")
	}
}
