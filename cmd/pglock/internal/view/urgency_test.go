package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// waited returns a snapshot of one lock for which sessions have waited for the given times.
func waited(times ...time.Duration) *monitor.Snapshot {
	lock := monitor.Lock{Key: "@5"}
	for _, lasted := range times {
		lock.Waiters = append(lock.Waiters, monitor.Waiter{WaitingSince: ago(lasted)})
	}
	return &monitor.Snapshot{TakenAt: now, Locks: []monitor.Lock{lock}}
}

func TestTheWorstServerIsFirst(t *testing.T) {
	dead, possible := waited(time.Second), waited(time.Second)
	dead.Cycles = []monitor.Cycle{{Certain: true}}
	possible.Cycles = []monitor.Cycle{{}, {}}
	worstFirst := []*monitor.Snapshot{dead, waited(time.Minute), waited(2*time.Second, time.Second, time.Second),
		waited(2*time.Second, time.Second), possible, waited(), nil}
	for i, worse := range worstFirst {
		if CompareUrgency(worse, worse) != 0 {
			t.Errorf("server %d does not equal itself", i)
		}
		for k, better := range worstFirst[i+1:] {
			if CompareUrgency(worse, better) >= 0 || CompareUrgency(better, worse) <= 0 {
				t.Errorf("server %d is not before server %d", i, i+1+k)
			}
		}
	}
}

func TestTheStatusOfSeveralServersNamesTheWorstFirst(t *testing.T) {
	given := []Judgement{{Server: "a", Verdict: OK, Text: "no waiters", Data: []Datum{{"waiters", "0"}}},
		{Server: "b", Verdict: Unknown, Text: "refused"}, {Server: "c", Verdict: Warning, Text: "slow"},
		{Server: "d", Verdict: Critical, Text: "stuck", Data: []Datum{{"waiters", "2"}}}, {Server: "e", Verdict: Critical, Text: "too"}}
	want := "d CRITICAL: stuck; e CRITICAL: too; c WARNING: slow; b UNKNOWN: refused; a OK: no waiters"
	verdict, line := StatusOfServers(given)
	if verdict != Critical || line != "PGLOCK CRITICAL - "+want+" | 'd waiters'=2 'a waiters'=0" {
		t.Errorf("%v %s", verdict, line)
	}
	if given[0].Server != "a" {
		t.Error("the argument was reordered")
	}
	for n, want := range map[int]Verdict{1: OK, 2: Unknown, 3: Warning} {
		if verdict, line := StatusOfServers(slices.Clone(given[:n])); verdict != want || !strings.HasPrefix(line, "PGLOCK "+want.String()) {
			t.Errorf("of the first %d: %v %s", n, verdict, line)
		}
	}
}
