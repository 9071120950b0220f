package report

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
)

func TestTheTableIs80ColumnsWide(t *testing.T) {
	rate := Compare("512 goroutines", PerSecond, contest.Series{200_000, 400_000, 600_000},
		contest.Series{20_000, 20_000, 20_000})
	for _, test := range []struct{ got, want string }{
		{Head(), "                               pglock      peer  ratio   quartiles    target"},
		{
			rate.Aim(AtLeast, 2.5).String(),
			"512 goroutines              400,000/s  20,000/s    20×       10–30   ≥ 2.50× yes",
		},
		{
			Alone("a snapshot", Seconds, contest.Series{0.04}).Aim(AtMost, 0.02).String(),
			"a snapshot                      40 ms                                ≤ 20 ms  no",
		},
	} {
		if test.got != test.want {
			t.Errorf("got  %q\nwant %q", test.got, test.want)
		}
		if width := utf8.RuneCountInString(test.got); width > 80 {
			t.Errorf("%d columns: %s", width, test.got)
		}
	}
}

func TestTargetsAreMetOrMissed(t *testing.T) {
	for _, test := range []struct {
		bound        Bound
		value, limit float64
		reached      bool
	}{
		{AtMost, 10, 10, true}, {AtMost, 10.1, 10, false},
		{AtLeast, 9, 9, true}, {AtLeast, 8.9, 9, false},
	} {
		line := Line{Ours: Figure{test.value, Count}}.Aim(test.bound, test.limit)
		if line.Target.Reached != test.reached {
			t.Errorf("%v %s %v: reached is %t", test.value, test.bound, test.limit, line.Target.Reached)
		}
	}
}

func TestFigures(t *testing.T) {
	for want, figure := range map[string]Figure{
		"":          {},
		"2":         {2, Count},
		"2.14":      {2.14, Count},
		"1.23 M/s":  {1234567, PerSecond},
		"999,999/s": {999_999, PerSecond},
		"999/s":     {999, PerSecond},
		"48.1 µs":   {48.06e-6, Seconds},
		"1.50 ms":   {1.5e-3, Seconds},
		"2 s":       {2, Seconds},
	} {
		if got := figure.String(); got != want {
			t.Errorf("%+v is %q, want %q", figure, got, want)
		}
	}
}

func TestJSONHasTheRunAndTheLines(t *testing.T) {
	var out bytes.Buffer
	line := Line{Row: "keys", What: "keys", Ours: Figure{3, PerSecond}}.Aim(AtLeast, 2)
	if err := WriteJSON(&out, map[string]string{"go": "1"}, []Line{line}); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Run   map[string]string
		Lines []Line
	}
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Run["go"] != "1" || len(back.Lines) != 1 || back.Lines[0].Row != "keys" || !back.Lines[0].Target.Reached {
		t.Errorf("got back %+v from %s", back, &out)
	}
}
