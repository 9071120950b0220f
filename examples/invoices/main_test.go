package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestInvoicesArePaidUnderTheirLocks(t *testing.T) {
	pool := testenv.Database(t).Pool(t)
	schema, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), string(schema)); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), pool, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"paid: 1\nrefused: query PayInvoices: pglock: lock \"invoice:2\", one of 2, not acquired: already held",
		"\npaid instead: [3]\nto pay: 1000 cents; the label of invoice:2 is invoice:{id}\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%swant\n%s", out.String(), want)
		}
	}
}
