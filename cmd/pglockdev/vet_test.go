package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mistakes is a program with real output of sqlc and the plugin.
const mistakes = `package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	db "github.com/pglock-toolkit/pglock/internal/integration/lockfixture/pgxdb"
	locks "github.com/pglock-toolkit/pglock/internal/integration/lockfixture/pgxlocks"
	"github.com/pglock-toolkit/pglock/pglock"
)

func pay(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, locker *pglock.Locker) {
	_ = db.New(pool).PayInvoice(ctx, 1)
	_ = db.New(pool).WithTx(tx).PayInvoice(ctx, 2)
	_ = db.New(locks.Tx(tx)).PayInvoice(ctx, 3)
	_, _ = db.New(pool).ListInvoices(ctx)
	_, _ = locker.Lock(ctx, pglock.Int64Key(4))
}

func main() { pay(context.Background(), nil, nil, nil) }
`

func TestProgramGoVetReportsQueriesThatMissTheirLock(t *testing.T) {
	root, err := filepath.Abs("../../internal/integration")
	if err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(t.TempDir(), "pglockdev")
	if out, err := exec.Command("go", "build", "-o", tool, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tmp := filepath.Join(root, ".tmp") // inside the module of the fixture, in a directory that git and ./... ignore
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(tmp, "vet-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(mistakes), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "vet", "-vettool="+tool, "./"+filepath.Base(tmp)+"/"+filepath.Base(dir))
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("no mistake is reported: %s", out)
	}
	for _, want := range []string{
		"main.go:15:6: PayInvoice runs on a plain pgxpool.Pool, which does not take its lock invoice:{id}",
		"main.go:16:6: PayInvoice runs on a plain pgx.Tx",
		"main.go:19:9: the lock is dropped",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if n := strings.Count(string(out), "main.go:"); n != 3 {
		t.Errorf("%d mistakes are reported, want 3:\n%s", n, out)
	}
}
