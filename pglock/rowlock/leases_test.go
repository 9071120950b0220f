package rowlock_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// These tests interleave transactions of the schema's functions, with pg_locks as the oracle.

// process is one holder, on a connection of its own.
type process struct {
	t       *testing.T
	db      *testenv.DB
	conn    *pgx.Conn
	q       *lockdb.Queries
	id      pgtype.UUID
	attempt int64
}

const anHour = 3600_000

func newProcess(t *testing.T, db *testenv.DB, number byte) *process {
	t.Helper()
	p := &process{t: t, db: db, conn: db.Connect(t), id: pgtype.UUID{Bytes: [16]byte{15: number}, Valid: true}}
	p.q = lockdb.New(p.conn)
	_, err := p.q.OpenHolder(t.Context(), lockdb.OpenHolderParams{Holder: p.id, LeaseMs: anHour})
	p.must(err)
	return p
}

func (p *process) must(err error) {
	p.t.Helper()
	must.Succeed(p.t, err)
}

func (p *process) exec(sql string, args ...any) {
	p.t.Helper()
	_, err := p.conn.Exec(p.t.Context(), sql, args...)
	p.must(err)
}

// call is a lease_call. Its lists are parallel.
type call = lockdb.CallLeasesParams

// call is a lease_call without drops or wants.
func (p *process) call() call {
	p.attempt++
	return call{
		Holder: p.id, Attempt: p.attempt, DropSpaces: []int16{}, DropNumbers: []int64{}, DropValues: []int64{},
		Spaces: []int16{}, Numbers: []int64{}, Shared: []bool{}, Waits: []bool{}, Arrivals: []int64{},
	}
}

// try runs a call whose outcomes do not matter.
func (p *process) try(c call) error {
	_, err := p.q.CallLeases(p.t.Context(), c)
	return err
}

// taking is a call that wants each of the keys by itself.
func (p *process) taking(shared, wait bool, numbers ...int64) call {
	c := p.call()
	for _, n := range numbers {
		c.Spaces, c.Numbers = append(c.Spaces, 1), append(c.Numbers, n)
		c.Shared, c.Waits, c.Arrivals = append(c.Shared, shared), append(c.Waits, wait), append(c.Arrivals, 0)
		if !shared {
			c.Plain++
		}
	}
	return c
}

// outcomes runs a call and returns the outcome of each item, and their values.
func (p *process) outcomes(c call) (outcomes []string, values []int64) {
	p.t.Helper()
	got, err := p.q.CallLeases(p.t.Context(), c)
	p.must(err)
	if got.Outcome != "done" {
		return []string{got.Outcome}, nil
	}
	for _, letter := range got.Dropped {
		outcomes = append(outcomes, map[rune]string{'d': "dropped", 'g': "gone", 'b': "busy"}[letter])
	}
	for _, letter := range got.Taken {
		outcomes = append(outcomes, map[rune]string{'g': "granted", 'h': "held", 'w': "waited for", 'b': "busy"}[letter])
	}
	return outcomes, got.Results
}

func (p *process) want(got []string, want ...string) {
	p.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		p.t.Fatalf("got %v, want %v", got, want)
	}
}

// take takes keys, which must be free, and returns their generations.
func (p *process) take(numbers ...int64) []int64 {
	p.t.Helper()
	outcomes, values := p.outcomes(p.taking(false, false, numbers...))
	for _, o := range outcomes {
		if o != "granted" {
			p.t.Fatalf("got %v", outcomes)
		}
	}
	return values
}

func (p *process) holds(number int64) bool {
	p.t.Helper()
	var holds bool
	sql := "SELECT count(*) = 1 FROM pglock.leases WHERE space = 1 AND number = $1 AND holder = $2"
	p.must(p.db.Connect(p.t).QueryRow(p.t.Context(), sql, number, p.id).Scan(&holds))
	return holds
}

// inBackground runs f and returns when the connection waits for a lock, and a function that waits for the end of f.
func (p *process) inBackground(f func() error) (done func()) {
	p.t.Helper()
	ended := make(chan error, 1)
	pid, admin := p.conn.PgConn().PID(), p.db.Connect(p.t)
	go func() { ended <- f() }()
	testenv.WaitUntil(p.t, "it waits for a lock", func() bool {
		var waits bool
		sql := "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)"
		p.must(admin.QueryRow(p.t.Context(), sql, pid).Scan(&waits))
		return waits
	})
	return func() {
		p.t.Helper()
		must.Succeed(p.t, <-ended)
	}
}

// The single statements that suggest themselves. What they decide by is as old as their beginning.
var wrongStatements = map[string]string{
	"its holder is over": `
		INSERT INTO pglock.leases AS l (space, number, holder) SELECT 1, n, $1 FROM unnest($2::bigint[]) AS n ORDER BY n
		ON CONFLICT (space, number) DO UPDATE SET holder = $1
		WHERE l.holder IS NULL
			OR EXISTS (SELECT FROM pglock.holders AS h WHERE h.id = l.holder AND (h.ended OR h.expires <= clock_timestamp()))`,
	"it has no holder that lives": `
		INSERT INTO pglock.leases AS l (space, number, holder) SELECT 1, n, $1 FROM unnest($2::bigint[]) AS n ORDER BY n
		ON CONFLICT (space, number) DO UPDATE SET holder = $1
		WHERE NOT EXISTS (SELECT FROM pglock.holders AS h WHERE h.id = l.holder AND NOT h.ended AND h.expires > clock_timestamp())`,
}

// A take begins, and has to wait because another transaction inserts one of its keys. The other key is that of a holder that
// has expired. Meanwhile that holder is renewed, or another one takes the key, which did not exist yet.
func TestLeaseTakeNeverStealsFromAHolderThatLives(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	number := int64(0)
	for name, takes := range map[string]func(*process) error{
		"lease_call": func(p *process) error {
			err := p.try(p.taking(false, false, number, number+1))
			return err
		},
		"its holder is over":          nil,
		"it has no holder that lives": nil,
	} {
		wrong := takes == nil
		if wrong {
			takes = func(p *process) error {
				_, err := p.conn.Exec(t.Context(), wrongStatements[name], p.id, []int64{number, number + 1})
				return err
			}
		}
		steals := false
		for _, renewed := range []bool{true, false} {
			number += 2
			contested := number + 1
			thief, helper := newProcess(t, db, byte(number)), db.Connect(t)
			holder := newProcess(t, db, byte(contested))
			holder.take(contested)
			holder.exec("UPDATE pglock.holders SET expires = clock_timestamp() - interval '1 s' WHERE id = $1", holder.id)
			stop := fmt.Sprintf("INSERT INTO pglock.leases (space, number) VALUES (1, %d)", number)
			if !wrong {
				stop = fmt.Sprintf("SELECT FROM pglock.holders WHERE id = '%s' FOR UPDATE", thief.id)
			}
			for _, sql := range []string{"BEGIN", stop} {
				if _, err := helper.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			done := thief.inBackground(func() error { return takes(thief) })
			if renewed { // the renewal of a moment before it expired
				holder.exec("UPDATE pglock.holders SET expires = clock_timestamp() + interval '1 h' WHERE id = $1", holder.id)
			} else {
				holder = newProcess(t, db, byte(100+contested))
				holder.take(contested)
			}
			if _, err := helper.Exec(t.Context(), "COMMIT"); err != nil {
				t.Fatal(err)
			}
			done()
			steals = steals || !holder.holds(contested)
		}
		if steals != wrong {
			t.Errorf("%s: steals is %v", name, steals)
		}
	}
}

func TestLeaseOfAnExpiredHolderIsTakenAndNoRenewalRevivesIt(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	old, next := newProcess(t, db, 1), newProcess(t, db, 2)
	generation := old.take(7)[0]
	got, _ := next.outcomes(next.taking(false, false, 7))
	next.want(got, "held")
	old.exec("UPDATE pglock.holders SET expires = clock_timestamp() - interval '1 s' WHERE id = $1", old.id)

	// A renewal that arrives while the take is not committed waits for it.
	next.exec("BEGIN")
	if now := next.take(7)[0]; now <= generation {
		t.Errorf("generation %d after %d", now, generation)
	}
	// The clock of the server jumps back.
	done := old.inBackground(func() (err error) {
		_, err = old.conn.Exec(t.Context(), "UPDATE pglock.holders SET expires = clock_timestamp() + interval '1 h' WHERE id = $1 AND NOT ended", old.id)
		return err
	})
	next.exec("COMMIT")
	done()
	next.exec("UPDATE pglock.holders SET expires = clock_timestamp() + interval '1 h' WHERE id = $1", old.id) // as it is by that clock
	renewed, err := old.q.RenewHolder(t.Context(), lockdb.RenewHolderParams{Holder: old.id, LeaseMs: anHour})
	if err != nil || renewed {
		t.Errorf("the renewal of a holder that is over: %v, %v", renewed, err)
	}
	got, _ = old.outcomes(old.taking(false, false, 8))
	old.want(got, "over")
	if !next.holds(7) {
		t.Error("the new holder does not hold the key")
	}
}

// The take skips the row that a renewal has locked: the holder lives.
func TestLeaseRenewalThatIsFirstKeepsTheLocks(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	old, next := newProcess(t, db, 1), newProcess(t, db, 2)
	old.take(7)
	old.exec("BEGIN")
	if renewed, err := old.q.RenewHolder(t.Context(), lockdb.RenewHolderParams{Holder: old.id, LeaseMs: anHour}); err != nil || !renewed {
		t.Fatal(renewed, err)
	}
	got, _ := next.outcomes(next.taking(false, false, 7))
	next.want(got, "held")
	old.exec("COMMIT")
	got, _ = next.outcomes(next.taking(false, false, 7))
	next.want(got, "held")
}

func TestLeaseSettlementUndoesACallAndRefusesItWhenItIsLate(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	p := newProcess(t, db, 1)
	running, settling := p, &process{t: t, db: db, conn: db.Connect(t), id: p.id}
	settling.q = lockdb.New(settling.conn)
	settle := func() error {
		return settling.q.SettleLeases(t.Context(), lockdb.SettleLeasesParams{
			Holder: p.id, Attempt: p.attempt, Spaces: []int16{1}, Numbers: []int64{7}})
	}
	running.exec("BEGIN")
	running.take(7) // its commit is on its way
	done := settling.inBackground(settle)
	running.exec("COMMIT")
	done()
	if p.holds(7) {
		t.Error("what a settled call took is still held")
	}
	late := p.taking(false, false, 7)
	late.Attempt--
	got, _ := p.outcomes(late)
	p.want(got, "settled")
	p.take(7)
}

// Another transaction has just taken the key shared, and its commit is on its way: what it has done cannot be seen yet.
func TestLeaseTakePassesOverARowThatAnotherCallHasLocked(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	reader, writer := newProcess(t, db, 1), newProcess(t, db, 2)
	writer.take(7)
	writer.exec("UPDATE pglock.leases SET holder = NULL")
	writer.exec("SET lock_timeout = '1 s'") // a take does not wait
	for _, shared := range []bool{true, false} {
		reader.exec("BEGIN")
		got, _ := reader.outcomes(reader.taking(shared, false, 7))
		reader.want(got, "granted")
		got, _ = writer.outcomes(writer.taking(false, false, 7, 8))
		writer.want(got, "busy", "granted")
		reader.exec("COMMIT")
		got, _ = writer.outcomes(writer.taking(false, false, 7))
		writer.want(got, "held")
		writer.exec("DELETE FROM pglock.lease_shares")
		writer.exec("UPDATE pglock.leases SET holder = NULL")
	}
}

// A key that an open transaction has added is busy, and the others of the call are not.
func TestLeaseTakeWaitsForNoTransactionThatHasAddedAKey(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	first, helper := newProcess(t, db, 1), newProcess(t, db, 3)
	helper.exec("BEGIN; INSERT INTO pglock.leases (space, number) VALUES (1, 7), (1, 9)")
	got, _ := first.outcomes(first.taking(false, false, 7, 8, 9, 10))
	first.want(got, "busy", "granted", "busy", "granted")
	helper.exec("COMMIT")
	got, _ = first.outcomes(first.taking(false, false, 7))
	first.want(got, "granted")
}

func TestLeaseCallsMakeTheirCommitsDurable(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	p := newProcess(t, db, 1)
	for name, call := range map[string]func() error{
		"take": func() error { return p.try(p.taking(false, false, 7)) },
		"renewal": func() error {
			_, err := p.q.RenewHolder(t.Context(), lockdb.RenewHolderParams{Holder: p.id, LeaseMs: anHour})
			return err
		},
	} {
		for _, setting := range []string{"off", "local", "remote_write", "on", "remote_apply"} {
			p.exec("BEGIN; SET LOCAL synchronous_commit = " + setting)
			p.must(call())
			want := "on"
			if setting == "remote_apply" {
				want = setting
			}
			got := must.One[string](t, p.conn, "SHOW synchronous_commit")
			if got != want {
				t.Errorf("%s with %s commits with %s", name, setting, got)
			}
			p.exec("ROLLBACK")
		}
		p.exec("BEGIN ISOLATION LEVEL REPEATABLE READ")
		if err := call(); err == nil {
			t.Errorf("%s in a REPEATABLE READ transaction", name)
		}
		p.exec("ROLLBACK")
	}
}

func TestALeaseIsAtMostADayLong(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	p := newProcess(t, db, 1)
	for _, ms := range []int64{0, -anHour, 24*anHour + 1, math.MaxInt64} {
		_, opened := p.q.OpenHolder(t.Context(), lockdb.OpenHolderParams{Holder: pgtype.UUID{Bytes: [16]byte{2}, Valid: true}, LeaseMs: ms})
		_, renewed := p.q.RenewHolder(t.Context(), lockdb.RenewHolderParams{Holder: p.id, LeaseMs: ms})
		for what, err := range map[string]error{"opened": opened, "renewed": renewed} {
			if server := (*pgconn.PgError)(nil); !errors.As(err, &server) || server.Code != "22023" {
				t.Errorf("a lease of %d ms is %s: %v", ms, what, err)
			}
		}
	}
	if renewed, err := p.q.RenewHolder(t.Context(), lockdb.RenewHolderParams{Holder: p.id, LeaseMs: 24 * anHour}); err != nil || !renewed {
		t.Errorf("a lease of a day: %v, %v", renewed, err)
	}
}

func TestLeasePruningFreesWhatHoldersThatEndedLongAgoLeft(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	old, live := newProcess(t, db, 1), newProcess(t, db, 2)
	old.take(1, 2)
	live.take(3)
	old.exec("UPDATE pglock.holders SET expires = clock_timestamp() - interval '2 h' WHERE id = $1", old.id)
	for range 2 {
		if _, err := live.q.PruneLeases(t.Context(), lockdb.PruneLeasesParams{KeepMs: anHour, Most: 10}); err != nil {
			t.Fatal(err)
		}
	}
	var holders, held int
	live.must(live.conn.QueryRow(t.Context(),
		"SELECT (SELECT count(*) FROM pglock.holders), (SELECT count(*) FROM pglock.leases WHERE holder IS NOT NULL)").Scan(&holders, &held))
	if holders != 1 || held != 1 || !live.holds(3) {
		t.Errorf("%d holders hold %d keys", holders, held)
	}
	// A negative age does not end what lives.
	if _, err := live.q.PruneLeases(t.Context(), lockdb.PruneLeasesParams{KeepMs: -anHour * 10, Most: 10}); err != nil {
		t.Fatal(err)
	}
	if got, _ := live.outcomes(live.call()); len(got) != 0 {
		t.Errorf("after pruning: %v", got)
	}
}

// ask is a call for one key, which may be waited for already.
func (p *process) ask(shared, wait bool, arrival, number int64) call {
	c := p.call()
	c.Spaces, c.Numbers = []int16{1}, []int64{number}
	c.Shared, c.Waits, c.Arrivals = []bool{shared}, []bool{wait}, []int64{arrival}
	return c
}

func TestLeaseCallThatCannotWinDrawsNoTransactionID(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	holder, reader, waiter, other := newProcess(t, db, 1), newProcess(t, db, 2), newProcess(t, db, 3), newProcess(t, db, 4)
	holder.take(7, 8, 9)
	holder.exec("UPDATE pglock.leases SET holder = NULL WHERE number > 7")
	got, _ := reader.outcomes(reader.ask(true, false, 0, 9))
	reader.want(got, "granted")
	_, arrivals := waiter.outcomes(waiter.ask(false, true, 0, 7))
	_, atReaders := waiter.outcomes(waiter.ask(false, true, 0, 9))
	for what, c := range map[string]call{
		"a key that is held":            other.ask(false, false, 0, 7),
		"that, shared":                  other.ask(true, false, 0, 7),
		"a key that readers have":       other.ask(false, false, 0, 9),
		"a reader behind a writer":      other.ask(true, false, 0, 9),
		"a waiter that is not the next": waiter.ask(false, true, arrivals[0], 7),
		"a writer behind readers":       waiter.ask(false, true, atReaders[0], 9),
		"nothing":                       other.call(),
	} {
		p := other
		if c.Holder == waiter.id {
			p = waiter
		}
		p.exec("BEGIN")
		got, _ := p.outcomes(c)
		writes := must.One[bool](t, p.conn, "SELECT pg_current_xact_id_if_assigned() IS NOT NULL")
		p.exec("COMMIT")
		if writes || strings.Contains(fmt.Sprint(got), "granted") {
			t.Errorf("%s: got %v, with a transaction ID: %v", what, got, writes)
		}
	}
	holder.exec("UPDATE pglock.leases SET holder = NULL")
	got, _ = other.outcomes(other.ask(false, false, 0, 7))
	other.want(got, "waited for")
}

func TestLeaseWaiterKeepsItsPlaceWhenALaterCallIsSettled(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	holder, waiter, other := newProcess(t, db, 1), newProcess(t, db, 2), newProcess(t, db, 3)
	generation := holder.take(7)[0]
	got, place := waiter.outcomes(waiter.ask(false, true, 0, 7))
	waiter.want(got, "held")
	got, _ = other.outcomes(other.ask(false, true, 0, 7))
	other.want(got, "held")
	c := holder.call()
	c.DropKinds, c.DropSpaces, c.DropNumbers, c.DropValues = "x", []int16{1}, []int64{7}, []int64{generation}
	got, _ = holder.outcomes(c)
	holder.want(got, "dropped")
	got, _ = waiter.outcomes(waiter.ask(false, false, 0, 7))
	waiter.want(got, "waited for")
	got, _ = waiter.outcomes(waiter.ask(false, true, place[0], 7)) // the answer is lost
	waiter.want(got, "granted")
	waiter.must(waiter.q.SettleLeases(t.Context(), lockdb.SettleLeasesParams{
		Holder: waiter.id, Attempt: waiter.attempt, Spaces: []int16{1}, Numbers: []int64{7}}))
	got, _ = waiter.outcomes(waiter.ask(false, true, place[0], 7))
	waiter.want(got, "granted")
}

func TestLeaseLookAtALongQueueIsBounded(t *testing.T) {
	t.Parallel()
	_, db := installed(t)
	p := newProcess(t, db, 1)
	p.exec("INSERT INTO pglock.lease_waiters (space, number, arrival, holder, attempt, shared) "+
		"SELECT 1, 7, i, $1, 0, false FROM generate_series(1, 1000) AS i", p.id)
	for arrival, want := range map[int64]int64{0: 400, 1000: 400, 3: 2} {
		ahead := must.One[int64](t, p.conn, "SELECT pglock.lease_ahead(1::smallint, 7, false, $1, true)", arrival)
		if ahead != want {
			t.Errorf("before arrival %d: %d are ahead, want %d", arrival, ahead, want)
		}
	}
}
