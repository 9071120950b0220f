package report

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
)

func TestTheTableIs80ColumnsWide(t *testing.T) {
	rate := Line{
		What: "512 goroutines", Ours: Figure{497_123, PerSecond}, Peer: Figure{62_000, PerSecond},
		Ratio: RatioOf(contest.Series{1000, 2000, 3000}, contest.Series{100, 100, 100}),
	}
	for _, test := range []struct{ got, want string }{
		{Head("plain pgx"), "                               pglock plain pgx  ratio   quartiles    target"},
		{
			rate.Aim(AtLeast, 2.5).String(),
			"512 goroutines              497,123/s  62,000/s    20×       10–30   ≥ 2.50× yes",
		},
		{
			Line{What: "memory of each of 10,000", Ours: Figure{2048, Bytes}}.Aim(Below, 1024).String(),
			"memory of each of 10,000      2,048 B                              < 1,024 B  no",
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
		{Below, 4.9, 5, true}, {Below, 5, 5, false},
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
		"806 B":     {805.7, Bytes},
		"0.19%":     {0.19, Percent},
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
