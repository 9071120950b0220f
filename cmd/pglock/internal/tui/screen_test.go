package tui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

func TestScreens(t *testing.T) {
	for name, test := range map[string]struct {
		snapshot      *monitor.Snapshot
		width, height int
		do            func(*user)
	}{
		"keys":          {mixedSnapshot(), 80, 24, func(*user) {}},
		"keys-wide":     {mixedSnapshot(), 120, 40, func(*user) {}},
		"keys-tiny":     {mixedSnapshot(), 40, 10, func(*user) {}},
		"tree":          {mixedSnapshot(), 80, 24, func(u *user) { u.presses("2") }},
		"tree-narrow":   {mixedSnapshot(), 60, 20, func(u *user) { u.presses("2") }},
		"tree-wide":     {mixedSnapshot(), 120, 40, func(u *user) { u.presses("2") }},
		"key":           {mixedSnapshot(), 80, 24, func(u *user) { u.presses("down", "enter") }},
		"session":       {mixedSnapshot(), 80, 40, func(u *user) { u.presses("2", "down", "down", "enter") }},
		"hidden":        {mixedSnapshot(), 80, 24, func(u *user) { u.presses("/goose", "enter", "enter") }},
		"prepared":      {mixedSnapshot(), 80, 24, func(u *user) { u.presses("/order 7", "enter", "enter") }},
		"info":          {mixedSnapshot(), 80, 24, func(u *user) { u.presses("i") }},
		"help":          {mixedSnapshot(), 80, 40, func(u *user) { u.presses("?") }},
		"help-short":    {mixedSnapshot(), 80, 24, func(u *user) { u.presses("?") }},
		"filter":        {mixedSnapshot(), 80, 24, func(u *user) { u.presses("/wor") }},
		"filter-wrong":  {mixedSnapshot(), 80, 24, func(u *user) { u.presses("/wor(") }},
		"filtered":      {mixedSnapshot(), 80, 24, func(u *user) { u.presses("/read", "enter") }},
		"deadlock":      {deadlockSnapshot(), 80, 24, func(u *user) { u.presses("2") }},
		"deadlock-info": {deadlockSnapshot(), 80, 24, func(u *user) { u.presses("i") }},
		"lost": {mixedSnapshot(), 80, 24, func(u *user) {
			refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			u.send(snapshotMsg{err: fmt.Errorf("failed to connect to app@db.example:5432/shop: %w", errors.Join(refused, refused))})
		}},
		"slow": {mixedSnapshot(), 80, 24, func(u *user) {
			u.send(snapshotMsg{err: fmt.Errorf("cannot read advisory locks: %w", context.DeadlineExceeded)})
		}},
		"full":          {fullLockTable(), 80, 24, func(*user) {}},
		"possible":      {possibleDeadlock(), 80, 24, func(*user) {}},
		"possible-info": {possibleDeadlock(), 80, 24, func(u *user) { u.presses("i") }},
		"paused":        {mixedSnapshot(), 80, 24, func(u *user) { u.presses("space") }},
		"empty":         {&monitor.Snapshot{TakenAt: noon, ServerVersion: "16.4", Database: "shop"}, 80, 24, func(*user) {}},
		"many":          {manyLocks(5000), 80, 24, func(u *user) { u.presses("end") }},
	} {
		t.Run(name, func(t *testing.T) {
			u := start(t, Options{First: test.snapshot, End: sendNothing}, test.width, test.height)
			test.do(u)
			u.golden(name)
		})
	}
}

// visitAll opens all pages and panes, and calls look in each.
func visitAll(u *user, look func()) {
	for _, keys := range [][]string{{"1"}, {"2"}, {"enter"}, {"esc", "1", "enter"}, {"esc", "i"}, {"l"}, {"?"},
		{"esc", "/.", "enter"}} {
		u.presses(keys...)
		look()
	}
}

func TestTheScreenIsFilledAndNotOverfilled(t *testing.T) {
	for _, width := range []int{1, 20, 79, 80, 100, 233} {
		for _, height := range []int{1, 7, 24, 61} {
			for _, snapshot := range []*monitor.Snapshot{mixedSnapshot(), deadlockSnapshot(), manyLocks(100)} {
				u := start(t, Options{First: snapshot}, width, height)
				u.send(snapshotMsg{err: errors.New(strings.Repeat("no route to host ", 20))})
				visitAll(u, func() {
					lines := strings.Split(u.screen(), "\n")
					if len(lines) != height {
						t.Fatalf("%d lines on a screen of %d×%d:\n%s", len(lines), width, height, u.screen())
					}
					for _, line := range lines {
						if n := view.Columns(line); n > width {
							t.Fatalf("a line of %d columns on a screen of %d×%d: %s", n, width, height, line)
						}
					}
				})
			}
		}
	}
}

func TestColumnsHaveRoom(t *testing.T) {
	for number := range pages {
		for width := 80; width < 250; width++ {
			used := marker - 1
			for _, c := range fitColumns(number, width) {
				used += 1 + c.width
			}
			if used != width && (used > width || number == pageTree) {
				t.Errorf("the columns of page %d take %d of %d", number, used, width)
			}
		}
	}
}

// hostile contains control sequences that must not reach the terminal.
const hostile = "\x1b[2J\x1b]0;x\a\n\r\t\u009b31m\u202etxet\x00\xff"

func TestForeignTextDoesNotControlTheTerminal(t *testing.T) {
	s := deadlockSnapshot()
	for i := range s.Locks {
		l := &s.Locks[i]
		l.Key, l.Names, l.Database = hostile, []string{hostile}, hostile
		l.Guesses = []string{hostile}
		for _, session := range []*monitor.Session{&l.Holders[0].Session, &l.Waiters[0].Session} {
			session.User, session.Database, session.Application, session.Client = hostile, hostile, hostile, hostile
			session.State, session.Query, session.WaitEventType, session.WaitEvent = hostile, hostile, hostile, hostile
			session.Process = hostile
		}
		l.Holders = append(l.Holders, monitor.Holder{Mode: hostile, Session: monitor.Session{GID: hostile, User: hostile}})
	}
	s.Cycles[0].Steps[0].Key, s.Cycles[0].Steps[0].Process = hostile, hostile
	s.Database, s.Role, s.ServerVersion = hostile, hostile, hostile
	s.NamesMissing, s.DetailsHidden, s.BlockersMissing = hostile, hostile, hostile
	u := start(t, Options{First: s, Target: hostile}, 120, 60)
	u.send(snapshotMsg{err: errors.New(hostile)})
	visitAll(u, func() {
		for _, r := range u.screen() { // styles are stripped, and nothing else is
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("the screen contains %U:\n%q", r, u.screen())
			}
		}
		if content := u.m.View().Content; strings.Contains(ansi.Strip(content), "\x1b") ||
			strings.Contains(content, "\x1b[2J") || strings.Contains(content, "\x1b]") {
			t.Fatalf("control sequences reach the terminal: %q", content)
		}
	})
}

func TestUnchangedScreensAreNotSentAgain(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 80, 24)
	before := u.m.View().Content
	u.snapshotArrives(mixedSnapshot())
	if after := u.m.View().Content; after != before {
		t.Errorf("an unchanged server changes the screen:\n%s\n%s", before, after)
	}
}

func TestAQueryKeepsItsLines(t *testing.T) {
	shown := &text{width: 40}
	shown.query(func(_, line string) string { return view.Printable(line) }, "-- why\r\n\n\tselect 1;\n")
	if want := []string{"   query        -- why", "                select 1;"}; !slices.Equal(shown.lines, want) {
		t.Errorf("got %q, want %q", shown.lines, want)
	}
}
