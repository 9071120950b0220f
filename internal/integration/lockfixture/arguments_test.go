package lockfixture_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/integration/lockfixture/pgxdb"
	"github.com/pglock-toolkit/pglock/internal/integration/lockfixture/pgxlocks"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestTxEncodesHostileArguments(t *testing.T) {
	t.Parallel()
	db := database(t)
	for _, mode := range unlike {
		conn, trips := connect(t, db.ConnString(), mode)
		for _, tenant := range []string{
			"", "{42}", "invoice:{42}", "a:invoice:1", "a:b@c%d{e}", "line\nline", "'; DROP TABLE invoices; --", "日本語\u202e",
			strings.Repeat("é", 400),
		} {
			tx := begin(t, conn)
			_, err := pgxdb.New(pgxlocks.Tx(tx)).TenantInvoices(t.Context(), pgxdb.TenantInvoicesParams{Tenant: tenant, ID: -1})
			if err != nil && !strings.Contains(err.Error(), "division by zero") {
				t.Errorf("%q: %v", tenant, err)
			}
			if err == nil {
				wantLocks(t, db, pgxlocks.TenantInvoice(tenant, -1), pgxlocks.NightlyReport())
			}
			must.Succeed(t, tx.Rollback(t.Context()))
		}
		tx := begin(t, conn)
		for _, tenant := range []string{strings.Repeat("x", 1<<20), strings.Repeat("x", 1010), strings.Repeat(":", 400)} {
			n := trips.during(func() {
				_, err := pgxdb.New(pgxlocks.Tx(tx)).TenantInvoices(t.Context(), pgxdb.TenantInvoicesParams{Tenant: tenant, ID: 1})
				if !errors.Is(err, pglock.ErrInvalidKey) || !strings.Contains(err.Error(), "at most 1024 fit") || len(err.Error()) > 300 {
					t.Errorf("the error is %.300v", err)
				}
				if key := pgxlocks.TenantInvoice(tenant, 1); !key.Equal(pglock.Key{}) {
					t.Errorf("the key is %.30v", key)
				}
			})
			if n != 0 {
				t.Errorf("%d round trips", n)
			}
		}
		must.Succeed(t, tx.Rollback(t.Context()))
	}
}

func TestTxRefusesArgumentsThatMakeNoName(t *testing.T) {
	t.Parallel()
	db := database(t)
	inner := begin(t, db.Connect(t))
	tx := pgxlocks.Tx(inner)
	id, at := pgtype.UUID{Valid: true}, pgtype.Timestamptz{Time: time.Now(), Valid: true}
	exec := func(sql string, args ...any) error {
		_, err := tx.Exec(t.Context(), sql, args...)
		return err
	}
	for name, err := range map[string]error{
		"element 2: it is NULL":   exec(pgxdb.LockedInvoices, []*int64{new(int64), nil}),
		"{id}: it is NULL":        exec(pgxdb.PayInvoice, nil),
		"its Go type is string":   exec(pgxdb.PayInvoice, "1"),
		"its Go type is float64":  exec(pgxdb.PayInvoice, 1.0),
		"its Go type is uint64":   exec(pgxdb.PayInvoice, uint64(math.MaxUint64)),
		"want a slice":            exec(pgxdb.LockedInvoices, 1),
		"it is infinity":          exec(pgxdb.TouchDocument, id, 1, pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}, true),
		"it is -infinity":         exec(pgxdb.TouchDocument, id, 1, &pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}, true),
		"{seen}: it is NULL":      exec(pgxdb.TouchDocument, id, 1, pgtype.Timestamptz{}, true),
		"beyond the bounds":       exec(pgxdb.TouchDocument, id, 1, time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC), true),
		"{id}: it is NULL, and a": exec(pgxdb.TouchDocument, pgtype.UUID{}, 1, at, true),
		"want a boolean":          exec(pgxdb.TouchDocument, id, 1, at, 1),
		"cannot parse UUID":       exec(pgxdb.TouchDocument, "x", 1, at, true),
	} {
		if !errors.Is(err, pglock.ErrInvalidKey) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	wantUsable(t, inner)
	wantLocks(t, db)
}

type (
	invoiceID int64
	tenant    string
	documents [16]byte
)

func TestTxEncodesTheTypesThatProjectsUse(t *testing.T) {
	t.Parallel()
	db := database(t)
	uuid := [16]byte{0x6b, 0xa7, 15: 1}
	at := time.Date(2026, 11, 22, 4, 23, 59, 123_456_789, time.FixedZone("", 7200))
	one, text := int64(1), "acme"
	for _, c := range []struct {
		key  pglock.Key
		sql  string
		args []any
	}{
		{pgxlocks.Invoice(1), pgxdb.PayInvoice, []any{int32(1)}},
		{pgxlocks.Invoice(1), pgxdb.PayInvoice, []any{1}},
		{pgxlocks.Invoice(1), pgxdb.PayInvoice, []any{uint8(1)}},
		{pgxlocks.Invoice(1), pgxdb.PayInvoice, []any{&one}},
		{pgxlocks.Invoice(1), pgxdb.PayInvoice, []any{invoiceID(1)}},
		{pgxlocks.Invoice(1), pgxdb.PayInvoice, []any{pgtype.Int8{Int64: 1, Valid: true}}},
		{pgxlocks.Invoice(1), pgxdb.LockedInvoices, []any{[]invoiceID{1}}},
		{pgxlocks.Invoice(1), pgxdb.LockedInvoices, []any{[]*int64{&one}}},
		{pgxlocks.Invoice(1), pgxdb.LockedInvoices, []any{pgtype.FlatArray[int64]{1}}},
		{pgxlocks.Document(uuid, 1, at, true), pgxdb.TouchDocument, []any{uuid, int32(1), at, true}},
		{pgxlocks.Document(uuid, 1, at, true), pgxdb.TouchDocument, []any{documents(uuid), 1, &at, true}},
		{pgxlocks.Document(uuid, 1, at, true), pgxdb.TouchDocument,
			[]any{pgtype.UUID{Bytes: uuid, Valid: true}, 1, pgtype.Timestamptz{Time: at, Valid: true}, pgtype.Bool{Bool: true, Valid: true}}},
		{pgxlocks.Document(uuid, 1, at.UTC(), true), pgxdb.TouchDocument, []any{"6BA70000-0000-0000-0000-000000000001", 1, at, true}},
	} {
		tx := begin(t, db.Connect(t))
		if _, err := pgxlocks.Tx(tx).Exec(t.Context(), c.sql, c.args...); err != nil {
			t.Errorf("%T: %v", c.args[0], err)
		}
		wantLocks(t, db, c.key)
		must.Succeed(t, tx.Rollback(t.Context()))
	}
	tx := begin(t, db.Connect(t))
	for _, name := range []any{tenant("acme"), &text, pgtype.Text{String: "acme", Valid: true}} {
		if _, err := pgxlocks.Tx(tx).Exec(t.Context(), pgxdb.TenantInvoices, name, 100); err != nil &&
			!strings.Contains(err.Error(), "division") {
			t.Errorf("%T: %v", name, err)
		}
		must.Succeed(t, tx.Rollback(t.Context()))
		tx = begin(t, db.Connect(t))
	}
}

func TestLabelsAreFew(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"invoice:42": "invoice:{id}", "invoice:-1": "invoice:{id}", "invoice:042": "other", "invoice:x": "other", "": "other",
		"nightly-report": "nightly-report", "tenant::invoice:1": "tenant:{tenant}:invoice:{id}",
		pgxlocks.TenantInvoice("invoice:{42}\n", 7).Name():                  "tenant:{tenant}:invoice:{id}",
		pgxlocks.Document([16]byte{}, -1, time.Unix(-1, 5000), true).Name(): "document:{id}@{version}:{seen}:{fresh}",
		strings.Repeat("x", 1<<20):                                          "other",
	} {
		if got := pgxlocks.Label(name); got != want {
			t.Errorf("%.40q: got %s, want %s", name, got, want)
		}
	}
}
