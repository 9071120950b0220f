package driver

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTheClockFollowsTimeAndNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := Now()
		if before <= 0 {
			t.Errorf("the clock shows %d, before times that have not been set", before)
		}
		time.Sleep(time.Hour) // of the bubble's clock
		if passed := Now().Sub(before); passed != time.Hour {
			t.Errorf("an hour took %v", passed)
		}
	})
	last := Now()
	for range 100_000 {
		now := Now()
		if now < last {
			t.Fatalf("the clock went back by %v", last.Sub(now))
		}
		last = now
	}
}

func TestNeverIsLaterThanEverything(t *testing.T) {
	if Never.Add(time.Hour) != Never || Now().Add(time.Hour) >= Never {
		t.Error("Never is not later than every instant")
	}
}

func TestPairsComeOutAsTheyWentIn(t *testing.T) {
	for _, pair := range [][2]int32{{0, 0}, {7, -42}, {-7, 42}, {-1, -1}, {1 << 30, -1 << 31}, {-1 << 31, 1<<31 - 1}} {
		class, object, ok := PairID(pair[0], pair[1]).Pair()
		if !ok || class != pair[0] || object != pair[1] {
			t.Errorf("%v came out as %d, %d, %v", pair, class, object, ok)
		}
	}
}
