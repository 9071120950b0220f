package semaphore_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// makeHeld makes the table in which transactions record that they hold permits. If the server ends a transaction, its
// row disappears, so the row does not count while its process does not yet know that its permits are free.
func makeHeld(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), "create table held (id bigserial primary key, weight int not null, "+
		"began timestamptz not null, ended timestamptz)"); err != nil {
		t.Fatal(err)
	}
}

// hold records that tx holds permits, and keeps tx open for a moment.
func hold(ctx context.Context, tx pgx.Tx, weight int) error {
	_, err := tx.Exec(ctx, "insert into held (weight, began) values ($1, clock_timestamp())", weight)
	if err != nil {
		return err
	}
	time.Sleep(rand.N(3 * time.Millisecond))
	_, err = tx.Exec(ctx, "update held set ended = clock_timestamp() where id = currval('held_id_seq')")
	return err
}

// wantAtMost fails the test if more than limit permits were held at a time, or always fewer.
func wantAtMost(t *testing.T, conn *pgx.Conn, limit int) {
	t.Helper()
	most := mostHeld(t, conn)
	t.Logf("at most %d permits were held at a time", most)
	if most > limit {
		t.Errorf("%d permits were held at a time", most)
	}
	if most < limit {
		t.Errorf("never more than %d were held at a time, so the test has not reached the limit", most)
	}
}

// mostHeld returns the largest total weight that was held at a time.
func mostHeld(t *testing.T, conn *pgx.Conn) (most int) {
	t.Helper()
	err := conn.QueryRow(t.Context(), `select coalesce(max(together), 0) from (
		select (select sum(weight) from held o where o.began <= h.began and h.began < o.ended) as together
		from held h) s`).Scan(&most)
	if err != nil {
		t.Fatal(err)
	}
	return most
}
