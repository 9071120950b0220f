package monitor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

// The kinds of scenes: relations and keys in all modes; a queue behind a strong mode, as of DDL, where to cancel its head may be
// best; and rows of a table that no other locks as a whole, since who gets its relation would go on to wait for a row.
const (
	mixed = iota
	behindDDL
	ofRows
	kinds
)

var modes = []string{"ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"}

// randomRequest returns a statement of the session at a place in the scene that locks one of a few relations, keys or rows.
func randomRequest(r *rand.Rand, kind, place int) string {
	shared := []string{"", "_shared"}[r.IntN(2)]
	mode, relation := modes[r.IntN(len(modes))], []string{"t", "other"}[r.IntN(2)]
	switch {
	case kind == ofRows && r.IntN(3) > 0:
		return fmt.Sprintf("SELECT FROM t WHERE id = %d FOR %s", 1+r.IntN(2), []string{"UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"}[r.IntN(4)])
	case kind == ofRows:
		return fmt.Sprintf("SELECT pg_advisory_xact_lock%s(1)", shared)
	case kind == behindDDL && place == 3:
		mode = modes[4+r.IntN(4)]
	case kind == behindDDL:
		mode = modes[r.IntN(3)]
	case r.IntN(3) == 0:
		return fmt.Sprintf("SELECT pg_advisory_xact_lock%s(%d)", shared, 1+r.IntN(2))
	}
	if kind == behindDDL && r.IntN(4) > 0 {
		relation = "t"
	}
	return fmt.Sprintf("LOCK TABLE %s IN %s MODE", relation, mode)
}

// randomScene makes sessions wait for each other. Each holds what it was granted until it ends.
func randomScene(s idleSessions, r *rand.Rand, kind int) {
	admin := s.db.Pool(s.T)
	for place := range 6 + r.IntN(6) {
		conn := s.session(patience, "BEGIN")
		for range 1 + r.IntN(3) {
			ctx, cancel := context.WithCancel(context.Background())
			done, statement := make(chan struct{}), randomRequest(r, kind, place)
			go func() {
				defer close(done)
				_, _ = conn.Exec(ctx, statement)
			}()
			s.Cleanup(func() {
				cancel()
				<-done
			})
			if waits(s, admin, conn, done) {
				break
			}
		}
	}
}

// waits reports whether a statement waits for a lock, rather than being done.
func waits(s idleSessions, admin *pgxpool.Pool, conn *pgx.Conn, done chan struct{}) (waiting bool) {
	testenv.WaitUntil(s.T, "a statement is done or waits", func() bool {
		select {
		case <-done:
			return true
		default:
			waiting = slices.Contains(waitingPIDs(s.T, admin, s.db.Name()), pidOf(conn))
			return waiting
		}
	})
	return waiting
}

func waitingPIDs(t testing.TB, db *pgxpool.Pool, database string) []int32 {
	t.Helper()
	rows, err := db.Query(t.Context(), "SELECT DISTINCT l.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.datname = $1", database)
	must.Succeed(t, err)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	must.Succeed(t, err)
	return pids
}

// Of relations and advisory locks the command frees exactly as many sessions as it says, or at least so many if it says that.
func TestActionsFreeAsManyAsTheySay(t *testing.T) {
	done := map[string]int{}
	for seed := range 12 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newIdleSessions(t)
			randomScene(s, rand.New(rand.NewPCG(uint64(seed), 3)), seed%kinds)
			pool := s.db.Pool(t)
			for range 10 {
				signal := actOnce(t, pool, s.db.Name())
				if signal == "" {
					break
				}
				done[signal]++
			}
		})
	}
	if done["cancel"] == 0 || done["terminate"] == 0 {
		t.Errorf("not all was tried: %v", done)
	}
	t.Log(done)
}

// actOnce does what the action of a snapshot says, and compares what it frees.
func actOnce(t *testing.T, pool *pgxpool.Pool, database string) (signal string) {
	taken, err := monitor.Take(t.Context(), pool)
	must.Succeed(t, err)
	before := waitingPIDs(t, pool, database)
	a := taken.Action()
	if a.Signal == "" {
		if len(before) > 0 && a.Why == "" {
			t.Errorf("%d wait, and the headline is %q", len(before), a)
		}
		return ""
	}
	for _, n := range a.Whom {
		send := monitor.Terminate
		if a.Signal == "cancel" {
			send = monitor.Cancel
		}
		before = slices.DeleteFunc(before, func(pid int32) bool { return pid == n.PID })
		target, err := taken.Target(n.ID())
		must.Succeed(t, err)
		_, err = send(t.Context(), pool, target)
		must.Succeed(t, err)
	}
	after := waitingPIDs(t, pool, database)
	freed := 0
	for _, pid := range before {
		if !slices.Contains(after, pid) {
			freed++
		}
	}
	if freed < a.Frees || freed > a.AtMost || a.Frees+a.Then == a.AtMost && freed != a.Frees || a.AtMost == 0 {
		t.Fatalf("%d went on after %q", freed, a)
	}
	return a.Signal
}
