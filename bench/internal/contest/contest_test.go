package contest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestContestantsTakeTurnsInADifferentOrderEachRound(t *testing.T) {
	var order string
	contestant := func(name string) Contestant {
		return Contestant{Name: name, Measure: func(context.Context, time.Duration) (float64, error) {
			order += name
			return float64(len(order)), nil
		}}
	}
	all, err := Run(t.Context(), Plan{Rounds: 3, Slice: time.Millisecond}, contestant("a"), contestant("b"))
	must.Succeed(t, err)
	if want := "ab" + "ab" + "ba" + "ab"; order != want {
		t.Errorf("the slices were %s, want %s: one of each that does not count, then three rounds", order, want)
	}
	if want := []Series{{3, 6, 7}, {4, 5, 8}}; !slices.EqualFunc(all, want, slices.Equal[Series]) {
		t.Errorf("the series are %v, want %v", all, want)
	}
}

func TestMediansAndQuartiles(t *testing.T) {
	for _, test := range []struct {
		series            Series
		median, low, high float64
	}{
		{nil, 0, 0, 0},
		{Series{5}, 5, 5, 5},
		{Series{4, 1}, 2.5, 1, 4},
		{Series{9, 1, 5}, 5, 1, 9},
		{Series{7, 1, 6, 2, 5, 3, 4}, 4, 2, 6},
		{Series{1, 2, 3, 4, 5, 6, 7, 8}, 4.5, 2, 7},
	} {
		low, high := test.series.Quartiles()
		if median := test.series.Median(); median != test.median || low != test.low || high != test.high {
			t.Errorf("%v: median %v, quartiles %v and %v; want %v, %v, %v",
				test.series, median, low, high, test.median, test.low, test.high)
		}
	}
}

func TestRatiosAreOfTheSameRound(t *testing.T) {
	if got, want := (Series{2, 9}).Over(Series{1, 3}), (Series{2, 3}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTheTimeInWhichALockIsFree(t *testing.T) {
	at := func(locker, locked, left int) Turn {
		return Turn{locker, time.UnixMilli(int64(locked)), time.UnixMilli(int64(left))}
	}
	turns := []Turn{at(0, 1, 2), at(0, 10, 11), at(0, 12, 13), at(1, 5, 6)} // not in order, as they come from different Lockers
	if p99 := LongestFree(turns); p99 != 4*time.Millisecond {               // 2 to 5, 6 to 10; the same Locker again is not a handoff
		t.Errorf("p99 %v", p99)
	}
	if p99 := LongestFree(nil); p99 != 0 {
		t.Errorf("without turns: p99 %v", p99)
	}
}
