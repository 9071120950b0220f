package failover_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// oracle compares what the workers were told with what is on the last primary.
type oracle struct {
	*testing.T
	*history
	tally       *faults.Tally
	synchronous bool
	control     bool // violations are only counted
	figures     figures
}

// figures are what the failovers have cost.
type figures struct {
	confirmed, lost map[string]int // writes of each kind
	repeated        int            // runs of one due time, beyond the first
	runs, tokens    int
	goneBack        int // tokens
	overwritten     int // updates, and writes of terms that are over
	violations      int // of a control
	passes, excess  int // what a rate limit permitted, and windows with too much of it
	overlaps        map[mode]time.Duration
}

func (o *oracle) violation(format string, args ...any) {
	o.Helper()
	if o.control {
		o.figures.violations++
		return
	}
	o.tally.Violations.Add(1)
	o.Errorf("VIOLATION: "+format, args...)
}

// check ends the history: no worker adds to it any more.
func (o *oracle) check(conn *pgx.Conn) {
	o.figures = figures{confirmed: map[string]int{}, lost: map[string]int{}, overlaps: map[mode]time.Duration{}}
	there := o.checkServer(conn)
	o.checkWrites(there)
	o.checkRuns()
	o.checkTokens()
	o.checkHolds()
	o.checkRate()
}

// stored is a row that is on the last primary.
type stored struct {
	Kind, Unit, ID string
	N              int
	XMin, CTID     string
}

// about says what is known of a row: where it is, and what its writer was told.
func (o *oracle) about(row stored) string {
	at := slices.IndexFunc(o.writes, func(w *write) bool { return w.id == row.ID })
	if at < 0 {
		return fmt.Sprintf("%s (xmin %s, ctid %s) was never committed by a worker", row.ID, row.XMin, row.CTID)
	}
	w := o.writes[at]
	text := fmt.Sprintf("%s (xmin %s, ctid %s): %v to %v by the server at port %d, confirmed %t, WAL %X",
		row.ID, row.XMin, row.CTID, w.from, w.to, w.port, w.confirmed, w.position)
	if e := o.during(w.from, w.to); e != nil {
		text += fmt.Sprintf("; %s, from %v to %v, promoted at %v, ports %d and %d, WAL branches at %X",
			e.mode, e.begin, e.end, e.promoted, e.old, e.new, e.switched)
	}
	return text
}

// checkServer checks what must hold of any primary, whatever was lost before: no update was overwritten, no term goes on
// after the next one has begun, and nothing that is done once is there twice.
func (o *oracle) checkServer(conn *pgx.Conn) (there map[string]bool) {
	rows, err := conn.Query(context.Background(), "select kind, unit, id, n, xmin::text, ctid::text from written order by kind, unit, n")
	must.Succeed(o.T, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
	must.Succeed(o.T, err)
	there = map[string]bool{}
	terms := map[string]bool{}
	for i, row := range all {
		there[row.ID] = true
		first := i == 0 || all[i-1].Kind != row.Kind || all[i-1].Unit != row.Unit
		switch row.Kind {
		case "guarded", "leader":
			if want := 1; first && row.N != want || !first && row.N != all[i-1].N+1 {
				o.figures.overwritten++
				o.violation("%s wrote %d after %d others\n%s\n%s", row.Unit, row.N, all[max(i-1, 0)].N, o.about(all[max(i-1, 0)]), o.about(row))
			}
		default:
			if !first {
				o.violation("%s %s is there twice", row.Kind, row.Unit)
			}
		}
		if row.Kind == "leader" {
			term, _, _ := strings.Cut(row.ID, ":")
			previous, _, _ := strings.Cut(all[max(i-1, 0)].ID, ":")
			if terms[term] && term != previous {
				o.figures.overwritten++
				o.violation("%s wrote after %s had begun", term, previous)
			}
			terms[term] = true
		}
	}
	return there
}

// checkWrites looks for confirmed writes that are gone. With an asynchronous standby, those may be that were on a server
// which was replaced, in WAL that the standby had not received.
func (o *oracle) checkWrites(there map[string]bool) {
	for _, w := range o.writes {
		if !w.confirmed {
			continue
		}
		o.figures.confirmed[w.kind]++
		if there[w.id] {
			continue
		}
		o.figures.lost[w.kind]++
		if o.synchronous || !o.mayBeLost(w) {
			o.violation("%s %s of %s was confirmed by the server at port %d at %v, and is gone", w.kind, w.id, w.unit, w.port, w.to)
		}
	}
}

func (o *oracle) mayBeLost(w *write) bool {
	return slices.ContainsFunc(o.eras, func(e *era) bool {
		return e.old == w.port && w.from <= e.end && (w.position == 0 || w.position > e.switched)
	})
}

func (o *oracle) checkRuns() {
	first := map[time.Time]time.Duration{}
	slices.SortFunc(o.runs, func(a, b run) int { return cmp.Compare(a.at, b.at) })
	o.figures.runs = len(o.runs)
	for _, r := range o.runs {
		before, twice := first[r.due]
		if !twice {
			first[r.due] = r.at
			continue
		}
		o.figures.repeated++
		if o.synchronous || o.during(before, r.at) == nil {
			o.violation("the job ran at %v and again at %v", before, r.at)
		}
	}
}

// checkTokens checks that tokens grow: with a synchronous standby always, and with an asynchronous one between failovers.
func (o *oracle) checkTokens() {
	o.figures.tokens = len(o.tokens)
	byKey := map[string][]token{}
	for _, t := range o.tokens {
		byKey[t.key] = append(byKey[t.key], t)
	}
	for _, tokens := range byKey {
		back := notGrowing(tokens)
		o.figures.goneBack += len(back)
		if !o.synchronous {
			back = nil
			for _, quiet := range o.quiet(tokens) {
				back = append(back, notGrowing(quiet)...)
			}
		}
		for _, t := range back {
			o.violation("token %d of %s was given at %v after a larger one", t.value, t.key, t.to)
		}
	}
}

// quiet parts tokens by the eras between which they were drawn.
func (o *oracle) quiet(tokens []token) [][]token {
	parts := make([][]token, len(o.eras)+1)
	for _, t := range tokens {
		if o.during(t.from, t.to) != nil {
			continue
		}
		i, _ := slices.BinarySearchFunc(o.eras, t.from, func(e *era, at time.Duration) int { return cmp.Compare(e.begin, at) })
		parts[i] = append(parts[i], t)
	}
	return parts
}

// notGrowing returns the tokens that are not larger than one that was given before their holder asked for the lock.
func notGrowing(tokens []token) (back []token) {
	asked, given := slices.Clone(tokens), slices.Clone(tokens)
	slices.SortFunc(asked, func(a, b token) int { return cmp.Compare(a.from, b.from) })
	slices.SortFunc(given, func(a, b token) int { return cmp.Compare(a.to, b.to) })
	var largest int64
	for _, t := range asked {
		for len(given) > 0 && given[0].to < t.from {
			largest = max(largest, given[0].value)
			given = given[1:]
		}
		if t.value <= largest {
			back = append(back, t)
		}
	}
	return back
}

// checkHolds looks for times in which more holders than may be believed that they held a key. Outside of failovers there are none,
// and while the old primary is silent none lasts longer than a lease.
func (o *oracle) checkHolds() {
	byKey := map[string][]hold{}
	for _, h := range o.holds {
		byKey[h.key] = append(byKey[h.key], h)
	}
	for key, holds := range byKey {
		most := 1
		if key == "gate" {
			most = permits
		}
		for _, over := range tooMany(holds, most) {
			o.judge(key, over)
		}
	}
}

func (o *oracle) judge(key string, over hold) {
	e := o.during(over.from, over.to)
	if e == nil {
		o.violation("%s had too many holders from %v to %v", key, over.from, over.to)
		return
	}
	if e.mode != frozen && e.mode != cutOff {
		o.longest(e.mode, over.to-over.from)
		return
	}
	silent := min(over.to, e.revived) - over.from
	o.longest(e.mode, silent)
	o.longest(zombie, over.to-max(over.from, e.revived)) // it has answered again
	if silent > lease {
		o.violation("%s had too many holders for %v while the old primary was %s", key, silent, e.mode)
	}
}

func (o *oracle) longest(m mode, overlap time.Duration) {
	o.figures.overlaps[m] = max(o.figures.overlaps[m], overlap)
}

// tooMany returns the times in which there were more holders than there may be.
func tooMany(holds []hold, most int) (over []hold) {
	type change struct {
		at time.Duration
		by int
	}
	var changes []change
	for _, h := range holds {
		changes = append(changes, change{h.from, 1}, change{h.to, -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	n := 0
	for i, c := range changes {
		n += c.by
		if n <= most || i == len(changes)-1 || changes[i+1].at == c.at {
			continue
		}
		to := changes[i+1].at
		if last := len(over) - 1; last >= 0 && over[last].to == c.at {
			over[last].to = to
		} else {
			over = append(over, hold{from: c.at, to: to})
		}
	}
	return over
}

// checkRate looks for windows in which more was permitted than the limit says.
func (o *oracle) checkRate() {
	o.figures.passes = len(o.passes)
	slices.SortFunc(o.passes, func(a, b pass) int { return cmp.Compare(a.from, b.from) })
	for i, first := range o.passes {
		n, end := 0, first.from+window
		for _, p := range o.passes[i:] {
			if p.from > end {
				break
			}
			if p.to < end {
				n++
			}
		}
		if n <= rate {
			continue
		}
		o.figures.excess++
		if o.synchronous || o.during(first.from, end) == nil {
			o.violation("%d calls were permitted in a window of %v from %v, at most %d may be", n, window, first.from, rate)
		}
	}
}
