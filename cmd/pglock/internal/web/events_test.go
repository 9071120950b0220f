package web

import (
	"slices"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
)

func waits(from, n int, key string, at time.Time) (events []journal.Event) {
	for i := range n {
		events = append(events, journal.Event{Kind: journal.WaitBegan, Key: key, At: at,
			Session: &journal.Party{PID: int32(from + i), Application: "waiter"}, BlockedBy: []journal.Party{{PID: 1, Application: "root"}}})
	}
	return events
}

func TestJournalGroupsAlikeEvents(t *testing.T) {
	t.Parallel()
	events := append(waits(100, 150, "a", noon), waits(300, 2, "b", noon)...)
	events = append(events, waits(250, 50, "a", noon.Add(2*time.Second))...)
	lines := eventsOf(events, "")
	if len(lines) != 3 || lines[0].Count != 200 || lines[0].Text != "200 sessions began to wait" ||
		!lines[0].At.Equal(noon) || !lines[0].Until.Equal(noon.Add(2*time.Second)) || len(lines[0].Some) != maxGrouped ||
		lines[1].Text != "301 waiter waits, blocked by 1 root" {
		t.Errorf("the journal: %+v", lines)
	}
	if lines := eventsOf(events, "b"); len(lines) != 2 {
		t.Errorf("of one key: %+v", lines)
	}
}

// A line keeps its ID while the group grows and events before it are forgotten: a page gets only what has changed.
func TestJournalLinesKeepTheirIDs(t *testing.T) {
	t.Parallel()
	var events []journal.Event
	for second := range 60 {
		events = append(events, waits(10*second, 5, "a", noon.Add(time.Duration(second)*time.Second))...)
	}
	ids := func(events []journal.Event) (all []string) {
		lines := eventsOf(events, "")
		for _, line := range lines {
			all = append(all, line.ID)
		}
		return all
	}
	before := ids(events)
	if after := ids(events[123:]); len(before) != 6 || !slices.Equal(after, before[:len(after)]) {
		t.Errorf("the IDs were %v, and are %v", before, after)
	}
}

func TestTimelineShowsGaps(t *testing.T) {
	t.Parallel()
	var infos []recording.Info
	for second := range 100 {
		if second < 40 || second >= 60 {
			infos = append(infos, recording.Info{At: noon.Add(time.Duration(second) * time.Second), Waiters: 3})
		}
	}
	line := timelineOf(noon, noon.Add(99*time.Second), infos, 80)
	if len(line.Gaps) != 1 || !line.Gaps[0].From.Equal(noon.Add(39*time.Second)) || !line.Gaps[0].To.Equal(noon.Add(60*time.Second)) {
		t.Errorf("gaps: %+v", line.Gaps)
	}
	for i, b := range line.Bars {
		if at := i * 99 / 80; (b.Waiters == 0) != (at > 40 && at < 59) && (at < 38 || at > 61 || (at > 41 && at < 58)) {
			t.Errorf("bar %d, at second %d: %+v", i, at, b)
		}
	}
}
