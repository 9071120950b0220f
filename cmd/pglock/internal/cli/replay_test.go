package cli

import (
	"errors"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
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

// Seeking reads a quarter of an hour, unless that would take seconds.
func TestReplayReadsABoundedTimeBeforeThatWhichIsShown(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for locks, want := range map[int]time.Duration{0: journalLead, 1000: journalLead, 5000: 5 * time.Minute} {
		memory := recording.NewMemory(maxPast)
		for i := range 2 {
			s := &monitor.Snapshot{TakenAt: noon.Add(time.Duration(i) * time.Second)}
			for n := range locks {
				s.Locks = append(s.Locks, monitor.Lock{Key: pglock.Int64Key(int64(n)).String(), Number: int64(n), Objsubid: 1})
			}
			line, err := recording.Encode(s, nil, false)
			if err := errors.Join(err, memory.Add(line)); err != nil {
				t.Fatal(err)
			}
		}
		if lead := newPlayer(memory.Past()).lead(noon).Round(time.Second); lead != want {
			t.Errorf("%d locks: %v, want %v", locks, lead, want)
		}
	}
}
