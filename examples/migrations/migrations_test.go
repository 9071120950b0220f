package main

import (
	"context"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestMigrationsRunInOneProcess lets three processes start at once. Two of them wait while the index is built. If they
// waited with a snapshot that would never end.
func TestMigrationsRunInOneProcess(t *testing.T) {
	db := testenv.Database(t)
	locker, err := pglock.NewWithConfig(db.Config(t))
	must.Succeed(t, err)
	defer func() { must.Succeed(t, locker.Close(context.Background())) }()
	lock, err := locker.Lock(t.Context(), schemaKey)
	must.Succeed(t, err)

	type result struct {
		out string
		err error
	}
	results := make(chan result)
	for range 3 {
		go func() {
			var out strings.Builder
			err := run(t.Context(), db.Config(t), &out)
			results <- result{out.String(), err}
		}()
	}
	db.WaitForWaiters(t, 3)
	must.Succeed(t, lock.Unlock(t.Context()))
	for range 3 {
		if r := <-results; r.err != nil || r.out != "schema version 3, 1000 invoices to pay\n" {
			t.Errorf("got %q and %v", r.out, r.err)
		}
	}
	var valid bool
	must.Succeed(t, db.Connect(t).QueryRow(t.Context(),
		"SELECT indisvalid FROM pg_index WHERE indexrelid = 'invoices_by_tenant'::regclass").Scan(&valid))
	if !valid {
		t.Error("the index is not valid")
	}
}

func TestMigrationsThatAreDoneAreNoError(t *testing.T) {
	db := testenv.Database(t)
	for range 2 {
		var out strings.Builder
		must.Succeed(t, run(t.Context(), db.Config(t), &out))
		if !strings.HasPrefix(out.String(), "schema version 3") {
			t.Errorf("got %q", out.String())
		}
	}
}
