package cli

import (
	"testing"
	"time"
)

func TestValuesSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0.5": 500 * time.Millisecond, "0": 0, "-0": 0, "1e3": 1000 * time.Second,
		"1m30s": 90 * time.Second, "250ms": 250 * time.Millisecond,
	} {
		var got seconds
		if err := got.Set(text); err != nil || time.Duration(got) != want {
			t.Errorf("%s is %v, %v; want %v", text, time.Duration(got), err, want)
		}
	}
	for _, text := range []string{"", "-1", "-1s", "soon", "NaN", "Inf", "-Inf", "1e99", "9223372037", "1 s", "0x1p99"} {
		var got seconds
		if err := got.Set(text); err == nil {
			t.Errorf("%q is taken for %v", text, time.Duration(got))
		}
	}
}
