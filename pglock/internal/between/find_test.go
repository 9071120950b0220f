package between

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

func key(n int64) driver.KeyID { return driver.KeyID{Space: driver.SpaceBigint, Number: n} }

// A server cuts what is published anywhere. What is left of it is whole waits.
func FuzzTextsThatAreCutAreWholeWaits(f *testing.F) {
	waits := []Wait{
		{Number: 1, Began: 1732652213123456, Wants: []driver.KeyID{key(-5)}, Holds: []Claim{{key(7), "123"}}},
		{Number: 22, Began: 9, Wants: []driver.KeyID{key(1), {Space: 12, Number: -1 << 63}}, Some: 2, Shared: true,
			Holds: []Claim{{key(1<<63 - 1), Turn}, {key(3), "9f3a00ff"}}, Txs: []Tx{{"99", 5}, {"1", 6}}},
	}
	text, written := Text(waits, 1000)
	f.Add(text, len(text))
	f.Add(" 1@1 -1:zz;", 5)
	f.Fuzz(func(t *testing.T, other string, cut int) {
		Parse(other)
		if written != len(waits) || !reflect.DeepEqual(Parse(text[len(Prefix):]), waits) {
			t.Fatalf("%q is read as %+v", text, Parse(text[len(Prefix):]))
		}
		if cut >= len(Prefix) && cut <= len(text) {
			if got := Parse(text[len(Prefix):cut]); len(got) > 0 && !reflect.DeepEqual(got, waits[:len(got)]) {
				t.Errorf("cut at %d it is read as %+v", cut, got)
			}
		}
	})
}

// calls are waits of processes "a", "b", ... in which each holds a lock by its name, and wants others.
func calls(wants ...[]int64) (s Sight) {
	for i, keys := range wants {
		process := string(rune('a' + i))
		w := Wait{Number: 1, Began: int64(i), Process: process, Role: "r", Holds: []Claim{{key(int64(i)), process}}}
		for _, k := range keys {
			w.Wants = append(w.Wants, key(k))
		}
		s.Waits = append(s.Waits, w)
		s.Holders = append(s.Holders, Holder{Key: key(int64(i)), Owner: process, Role: "r"})
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
			s.Holders = append(s.Holders, Holder{Key: key(8), Owner: "9", Role: "x"})
			s.Blocked = []Blocked{{PID: "9", By: []string{"5"}}}
			s.Waits[1].Txs, s.Txs = []Tx{{"5", 77}}, []OpenTx{{Tx{"5", 77}, "r"}}
		}},
		"a transaction that has ended": {sight: calls([]int64{8}, []int64{0}), change: func(s *Sight) {
			s.Holders = append(s.Holders, Holder{Key: key(8), Owner: "5", Role: "r"})
			s.Waits[1].Txs, s.Txs = []Tx{{"5", 77}}, []OpenTx{{Tx{"5", 78}, "r"}}
		}},
	} {
		if c.change != nil {
			c.change(&c.sight)
		}
		var got []string
		for _, d := range Find(c.sight) {
			for _, w := range d.Waits {
				got = append(got, w.Process)
				if cycle := d.Cycle(w); len(cycle) < 1 || cycle[0].Wait != w {
					t.Errorf("%s: the cycle is %+v", what, cycle)
				}
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v are in a deadlock, want %v", what, got, c.want)
		}
	}
}

// What each process sees comes in another order, and all agree on who gives up.
func TestFindDoesNotDependOnTheOrder(t *testing.T) {
	for range 300 {
		n := 2 + rand.IntN(8)
		wants := make([][]int64, n)
		for i := range wants {
			for range 1 + rand.IntN(2) {
				wants[i] = append(wants[i], rand.Int64N(int64(n)))
			}
		}
		s := calls(wants...)
		victims := func() (ids []ID) {
			for _, d := range Find(s) {
				ids = append(ids, d.Waits[0].ID())
			}
			slices.SortFunc(ids, func(a, b ID) int { return int(a.Process[0]) - int(b.Process[0]) })
			return ids
		}
		before := victims()
		rand.Shuffle(n, func(i, j int) { s.Waits[i], s.Waits[j] = s.Waits[j], s.Waits[i] })
		rand.Shuffle(n, func(i, j int) { s.Holders[i], s.Holders[j] = s.Holders[j], s.Holders[i] })
		if after := victims(); !slices.Equal(before, after) {
			t.Fatalf("%v give up, or %v, of %+v", before, after, s)
		}
	}
}
