package main

import (
	"testing"
	"time"
)

func TestAProcessIsReadWhateverItIsCalled(t *testing.T) {
	const stat = "42 (a) 1 (b)) S 7 42 42 0 -1 4194560 100 200 0 0 11 12 130 14 20 0 1 0 540846 3133440 382\n"
	got, err := parseStat(stat)
	if want := (process{pid: 42, parent: 7, reaped: 1440 * time.Millisecond}); got != want || err != nil {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "42 (a) S 7", "x (a) S 7 1 1 0 -1 0 0 0 0 0 0 0 0 0 0"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q is read without an error", bad)
		}
	}
}
