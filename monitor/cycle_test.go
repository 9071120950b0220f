package monitor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// waiting is a wait of one session for others, with commas. A session belongs to a process if its name has a slash, as in "p/1".
// "row p" is a process that uses locks in rows. What is waited for is an election behind "p/1 lead", and a semaphore behind "p/1 permit".
type waiting struct{ who, behind string }

// locksWith returns locks with one waiter each.
func locksWith(all []waiting) []Lock {
	pids, locks := map[string]int32{}, []Lock{}
	session := func(name string) Session {
		if _, known := pids[name]; !known {
			pids[name] = int32(len(pids) + 1)
		}
		if holder, inRows := strings.CutPrefix(name, "row "); inRows {
			return Session{Lease: &Lease{Holder: strings.TrimSuffix(holder, " lead")}}
		}
		process, _, inProcess := strings.Cut(name, "/")
		if !inProcess {
			process = ""
		}
		return Session{PID: pids[name], Process: process, Application: name}
	}
	for i, w := range all {
		var holders []Holder
		var blockers []Blocker
		for name := range strings.SplitSeq(w.behind, ",") {
			holder := session(name)
			holders = append(holders, Holder{Session: holder})
			blockers = append(blockers, Blocker{PID: holder.PID, Holder: holder.ID().Holder, Kind: blockHard})
		}
		since := time.Unix(int64(i), 0)
		kind := kindLock
		switch {
		case strings.HasSuffix(w.behind, " lead"):
			kind = kindLeader
		case strings.HasSuffix(w.behind, " permit"):
			kind = kindSemaphore
		}
		locks = append(locks, Lock{Kind: kind,
			Key: w.who + ">" + w.behind, Database: "shop", Holders: holders,
			Waiters: []Waiter{{Session: session(w.who), WaitingSince: &since, Expected: kind != kindLock,
				BlockedBy: blockers}},
		})
	}
	return locks
}

func TestCyclesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		waits []waiting
		want  []string
	}{
		"none":    {nil, nil},
		"a queue": {[]waiting{{"b", "a"}, {"c", "a"}, {"c", "b"}, {"d", "c"}}, nil},
		"two":     {[]waiting{{"a", "b"}, {"b", "a"}}, []string{"certain b>a a>b"}},
		"three and a queue": {[]waiting{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"d", "a"}, {"e", "d"}},
			[]string{"certain b>c c>a a>b"}},
		"two apart": {[]waiting{{"a", "b"}, {"b", "a"}, {"c", "d"}, {"d", "c"}},
			[]string{"certain b>a a>b", "certain d>c c>d"}},
		"two that share one": {[]waiting{{"a", "b"}, {"b", "a"}, {"b", "c"}, {"c", "b"}},
			[]string{"certain b>a a>b", "certain b>c c>b"}},
		"the shortest of each": {[]waiting{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"b", "a"}},
			[]string{"certain b>a a>b", "certain b>c c>a a>b"}},
		"between processes":               {[]waiting{{"p/1", "q/1"}, {"q/2", "p/2"}}, []string{"possible p/1>q/1 q/2>p/2"}},
		"a process that waits for itself": {[]waiting{{"p/1", "p/2"}}, nil},
		"within a process":                {[]waiting{{"p/1", "p/2"}, {"p/3", "p/4"}}, []string{"possible p/1>p/2 p/3>p/4"}},
		"certain in a process": {[]waiting{{"p/1", "p/2"}, {"p/2", "p/1"}},
			[]string{"certain p/2>p/1 p/1>p/2"}},
		"certain, not possible too":                    {[]waiting{{"p/1", "q/1"}, {"q/1", "p/1"}}, []string{"certain q/1>p/1 p/1>q/1"}},
		"through a stranger":                           {[]waiting{{"p/1", "a"}, {"a", "p/2"}}, []string{"possible a>p/2 p/1>a"}},
		"other processes":                              {[]waiting{{"p/1", "q/1"}, {"q/2", "r/2"}}, nil},
		"two that each lead what the other stands for": {[]waiting{{"p/1", "q/1 lead"}, {"q/2", "p/2 lead"}}, nil},
		"a candidate of a process that is waited for":  {[]waiting{{"p/1", "q/1 lead"}, {"q/2", "p/2"}}, nil},
		"two permits":                                  {[]waiting{{"p/1", "q/1 permit"}, {"q/2", "p/2 permit"}}, nil},
		"a session with the permits that it waits for": {[]waiting{{"p/1 permit", "p/1 permit"}}, nil},
		"two sessions with permits and waits for them": {[]waiting{{"p/1 permit", "q/1 permit"}, {"q/1 permit", "p/1 permit"}}, nil},
		"a permit and a lock":                          {[]waiting{{"p/1", "q/1 permit"}, {"q/2", "p/2"}}, []string{"possible p/1>q/1 permit q/2>p/2"}},
		"a permit, and one of two holders waits":       {[]waiting{{"p/1", "r/1 permit,q/1 permit"}, {"q/2", "p/2"}}, nil},
		"permits, and the holders of all wait": {[]waiting{{"p/1", "r/1 permit,q/1 permit"}, {"q/2", "p/2"}, {"r/2", "p/2"}},
			[]string{"possible p/1>r/1 permit,q/1 permit q/2>p/2", "possible p/1>r/1 permit,q/1 permit r/2>p/2"}},
		"locks in rows":       {[]waiting{{"row p", "row q"}, {"row q", "row r"}, {"row r", "row p"}}, []string{"possible row p>row q row q>row r row r>row p"}},
		"an election in rows": {[]waiting{{"row p", "row q lead"}, {"row q", "row p"}}, nil},
		"leaders whose sessions wait for each other for ever": {[]waiting{{"a", "b lead"}, {"b lead", "a"}}, []string{"certain b lead>a a>b lead"}},
	} {
		var got []string
		for _, cycle := range cycles(&Snapshot{Locks: locksWith(c.waits)}) {
			text := "possible"
			if cycle.Certain {
				text = "certain"
			}
			for _, step := range cycle.Steps {
				text += " " + step.Key
			}
			got = append(got, text)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestCycleIsAsOldAsItsLastWait(t *testing.T) {
	locks := locksWith([]waiting{{"a", "b"}, {"b", "c"}, {"c", "a"}})
	if since := cycles(&Snapshot{Locks: locks})[0].Since; since == nil || since.Unix() != 2 {
		t.Errorf("the cycle is there since %v", since)
	}
	locks[1].Waiters[0].WaitingSince = nil
	if since := cycles(&Snapshot{Locks: locks})[0].Since; since != nil {
		t.Errorf("the cycle has existed since %v, although the time of a wait is unknown", since)
	}
}

// Processes with several sessions in one queue wait behind each other, and none is stuck.
func TestCycleALongQueueHasNoCycle(t *testing.T) {
	lock := Lock{Key: "@1", Holders: []Holder{{Session: Session{PID: 1}}}}
	for pid := int32(2); pid < 200; pid++ {
		waiter := Waiter{Session: Session{PID: pid, Process: fmt.Sprintf("%08x", pid%7)}}
		waiter.BlockedBy = []Blocker{{PID: 1, Kind: blockHard}}
		for ahead := int32(2); ahead < pid; ahead++ {
			waiter.BlockedBy = append(waiter.BlockedBy, Blocker{PID: ahead, Kind: blockSoft})
		}
		lock.Waiters = append(lock.Waiters, waiter)
	}
	if found := cycles(&Snapshot{Locks: []Lock{lock}}); len(found) > 0 {
		t.Errorf("there are cycles: %+v", found)
	}
}
