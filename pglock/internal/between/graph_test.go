package between

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func key(n int64) driver.KeyID { return driver.KeyID{Space: driver.SpaceBigint, Number: n} }

// A server cuts what is published anywhere. What is left of it is whole waits.
func FuzzTextsThatAreCutAreWholeWaits(f *testing.F) {
	waits := []Wait{
		{ID: ID{Number: 1}, Began: 1732652213123456, Wants: []driver.KeyID{key(-5)}, Holds: []Claim{{key(7), "123"}}},
		{ID: ID{Number: 22}, Began: 9, Answers: 3, Wants: []driver.KeyID{key(1), {Space: 12, Number: -1 << 63}}, Some: 2, Shared: true,
			Holds: []Claim{{key(1<<63 - 1), "77"}, {key(3), "9f3a00ff"}}, Txs: []Tx{{"99", 5}, {"1", 6}}},
	}
	text, written := Text(waits, 1000)
	f.Add(text, len(text))
	f.Add(" 1@1@1 -1:zz;", 5)
	f.Fuzz(func(t *testing.T, other string, cut int) {
		Parse(other)
		if slices.Contains(written, false) || !reflect.DeepEqual(Parse(text[len(Prefix):]), waits) {
			t.Fatalf("%q is read as %+v", text, Parse(text[len(Prefix):]))
		}
		if cut >= len(Prefix) && cut <= len(text) {
			if got := Parse(text[len(Prefix):cut]); len(got) > 0 && !reflect.DeepEqual(got, waits[:len(got)]) {
				t.Errorf("cut at %d it is read as %+v", cut, got)
			}
		}
	})
}

// A wait for which there is no room does not keep others from being published.
func TestTextPassesOverWhatDoesNotFit(t *testing.T) {
	large, small := Wait{ID: ID{Number: 1}, Holds: slices.Repeat([]Claim{{key(7), "123"}}, 60)}, Wait{ID: ID{Number: 2}}
	if text, written := Text([]Wait{large, small, large, small}, 1023); !slices.Equal(written, []bool{false, true, false, true}) {
		t.Errorf("written are %v, as %q", written, text)
	}
}

// calls are waits of processes "a", "b", ... in which each holds a lock by its name, and wants others.
func calls(wants ...[]int64) (s Sight) {
	for i, keys := range wants {
		process := string(rune('a' + i))
		w := Wait{ID: ID{process, 1}, Began: int64(i), Role: "r", Holds: []Claim{{key(int64(i)), process}}}
		for _, k := range keys {
			w.Wants = append(w.Wants, key(k))
		}
		s.Waits = append(s.Waits, w)
		s.Holders = append(s.Holders, Holder{KeyID: key(int64(i)), Owner: process, Role: "r"})
	}
	return s
}

func TestFindKnowsWhoCanGoOn(t *testing.T) {
	for what, c := range map[string]struct {
		sight  Sight
		change func(*Sight)
		want   []string // the processes, who gives up first
	}{
		"a ring":                              {sight: calls([]int64{1}, []int64{2}, []int64{0}), want: []string{"c", "b", "a"}},
		"one whose process sees all":          {sight: calls([]int64{1}, []int64{0}), change: func(s *Sight) { s.Waits[0].SeesAll = true }, want: []string{"a", "b"}},
		"one that is behind a ring":           {sight: calls([]int64{1}, []int64{0}, []int64{0}), want: []string{"b", "a"}},
		"a chain":                             {sight: calls([]int64{1}, []int64{2}, []int64{9})},
		"a claim of another role":             {sight: calls([]int64{1}, []int64{0}), change: func(s *Sight) { s.Waits[1].Role = "x" }},
		"a lock that its session has no more": {sight: calls([]int64{1}, []int64{0}), change: func(s *Sight) { s.Holders[1].Owner = "x" }},
		"one of several permits is free":      {sight: calls([]int64{1, 9}, []int64{0}), change: func(s *Sight) { s.Waits[0].Some = 1 }},
		"all permits are stuck, one its own":  {sight: calls([]int64{0, 1}, []int64{0}), change: func(s *Sight) { s.Waits[0].Some = 1 }, want: []string{"b", "a"}},
		"shared beside shared":                {sight: calls([]int64{1}, []int64{0}), change: func(s *Sight) { s.Waits[0].Shared, s.Holders[1].Shared = true, true }},
		"shared behind a writer":              {sight: calls([]int64{1}, []int64{0}), change: func(s *Sight) { s.Waits[0].Shared = true }, want: []string{"b", "a"}},
		"shared behind a writer, again":       {sight: calls([]int64{0}), change: func(s *Sight) { s.Waits[0].Shared = true }, want: []string{"a"}},
		"shared, again":                       {sight: calls([]int64{0}), change: func(s *Sight) { s.Waits[0].Shared, s.Holders[0].Shared = true, true }},
		"a session that waits in between": {sight: calls([]int64{8}, []int64{0}), want: []string{"b", "a"}, change: func(s *Sight) {
			s.Holders = append(s.Holders, Holder{KeyID: key(8), Owner: "9", Role: "x"})
			s.Blocked = []Blocked{{PID: "9", By: []string{"5"}}}
			s.Waits[1].Txs, s.Txs = []Tx{{"5", 77}}, []OpenTx{{Tx{"5", 77}, "r"}}
		}},
		"a transaction that has ended": {sight: calls([]int64{8}, []int64{0}), change: func(s *Sight) {
			s.Holders = append(s.Holders, Holder{KeyID: key(8), Owner: "5", Role: "r"})
			s.Waits[1].Txs, s.Txs = []Tx{{"5", 77}}, []OpenTx{{Tx{"5", 78}, "r"}}
		}},
	} {
		if c.change != nil {
			c.change(&c.sight)
		}
		g, in := NewGraph(c.sight), 0
		for _, w := range g.Waits {
			cycle, rank := g.Cycle(w)
			if cycle == nil {
				continue
			}
			if in++; cycle[0].Wait != w || rank != slices.Index(c.want, w.Process) {
				t.Errorf("%s: %s is in a cycle with rank %d, want %d: %+v", what, w.Process, rank, slices.Index(c.want, w.Process), cycle)
			}
		}
		if in != len(c.want) {
			t.Errorf("%s: %d calls are in a deadlock, want %v", what, in, c.want)
		}
	}
}

// victims are the calls that are the first to give up.
func victims(s Sight) (ids []ID) {
	g := NewGraph(s)
	for id, w := range g.Waits {
		if cycle, rank := g.Cycle(w); cycle != nil && rank == 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b ID) int { return strings.Compare(a.Process, b.Process) })
	return ids
}

// remain are the calls that can go on only after each other, found in another way: all but those who can, one after another.
func remain(waits []Wait) (stuck []Wait) {
	stuck = slices.Clone(waits)
	isHeld := func(k driver.KeyID) bool {
		return slices.ContainsFunc(stuck, func(w Wait) bool { return w.Holds[0].Key == k })
	}
	for n := -1; n != len(stuck); {
		n = len(stuck)
		stuck = slices.DeleteFunc(stuck, func(w Wait) bool { return !slices.ContainsFunc(w.Wants, isHeld) })
	}
	return stuck
}

// What each process sees comes in another order, and all agree on who gives up. When they have, and those who were stuck behind
// them, there is no deadlock any more.
func TestCycleEndsEachDeadlock(t *testing.T) {
	for range 3000 {
		n := 2 + rand.IntN(8)
		wants := make([][]int64, n)
		for i := range wants {
			for range 1 + rand.IntN(2) {
				if k := rand.Int64N(int64(n)); k != int64(i) {
					wants[i] = append(wants[i], k)
				}
			}
		}
		s := calls(wants...)
		for len(remain(s.Waits)) > 0 {
			first := victims(s)
			rand.Shuffle(len(s.Waits), func(i, j int) { s.Waits[i], s.Waits[j] = s.Waits[j], s.Waits[i] })
			rand.Shuffle(n, func(i, j int) { s.Holders[i], s.Holders[j] = s.Holders[j], s.Holders[i] })
			if again := victims(s); len(first) == 0 || !slices.Equal(first, again) {
				t.Fatalf("%v give up, or %v, of %+v", first, again, s)
			}
			s.Waits = slices.DeleteFunc(s.Waits, func(w Wait) bool { return slices.Contains(first, w.ID) })
		}
		if more := victims(s); len(more) > 0 {
			t.Fatalf("without a deadlock %v give up, of %+v", more, s)
		}
	}
}
