package display

import (
	"testing"
	"time"
)

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0ms", 0: "0ms", 999 * time.Millisecond: "999ms", 1250 * time.Millisecond: "1.2s",
		10 * time.Second: "10s", 59*time.Second + 999*time.Millisecond: "59s", 61 * time.Second: "1m01s",
		time.Hour: "1h00m", 25 * time.Hour: "1d01h", 1000 * 24 * time.Hour: "1000d00h",
	} {
		if got := Age(d); got != want {
			t.Errorf("Age(%v) = %s, want %s", d, got, want)
		}
	}
}
