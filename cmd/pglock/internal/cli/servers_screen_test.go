package cli

import (
	"errors"
	"slices"
	"testing"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/tui"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// The view ends with a line about each server: its state, or that it does not answer.
func TestServersTheLastLinesNameEachServer(t *testing.T) {
	var f serverGroup
	for _, label := range []string{"a", "b", "c", "d"} {
		f.members = append(f.members, &member{db: database{label: label, target: "u@" + label}})
	}
	busy := &monitor.Snapshot{Locks: []monitor.Lock{{Waiters: []monitor.Waiter{{}}}}}
	last := []tui.Last{{}, {Lost: errors.New("refused\nonce more")}, {Snapshot: &monitor.Snapshot{}}, {Snapshot: busy}}
	got := lastLines(&f, last, view.Filter{})
	if want := []string{"u@d  1 key, 0 holders, 1 waiter", "u@c  0 keys, 0 holders, 0 waiters", "u@a  no answer yet",
		"u@b  no answer: refused; once more"}; !slices.Equal(got, want) {
		t.Errorf("the lines are %q, want %q", got, want)
	}
}
