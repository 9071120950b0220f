package cli

import (
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
)

func TestReplayATimeOfReplayIsInTheZoneThatIsShown(t *testing.T) {
	t.Parallel()
	paris := time.FixedZone("CET", 3600)
	last := time.Date(2026, 11, 22, 0, 30, 0, 0, paris)
	for text, want := range map[string]string{
		"00:15":                "2026-11-21T23:15:00Z",
		"00:45":                "2026-11-20T23:45:00Z",
		"23:45:30":             "2026-11-21T22:45:30Z",
		"2026-11-21 12:00":     "2026-11-21T11:00:00Z",
		"2026-11-21T12:00:00Z": "2026-11-21T12:00:00Z",
	} {
		at, err := parseMoment(text, last)
		if err != nil || at.Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v, want %s", text, at, err, want)
		}
	}
	if text, want := journal.HeldText(last.UTC(), last.Add(time.Minute)), "held ≥ 1m00s, seen since 00:30:00"; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
