package tui

import (
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
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
		"keys":      {mixedSnapshot(), 80, 24, func(u *user) { u.presses("1") }},
		"keys-tiny": {mixedSnapshot(), 40, 10, func(u *user) { u.presses("1") }},
		"tree":      {mixedSnapshot(), 80, 24, func(*user) {}},
		"tree-tiny": {mixedSnapshot(), 40, 20, func(*user) {}},
		"tree-wide": {mixedSnapshot(), 120, 40, func(*user) {}},
		"key":       {mixedSnapshot(), 80, 24, func(u *user) { u.presses("1", "down", "enter") }},
		"session":   {mixedSnapshot(), 80, 40, func(u *user) { u.presses("enter") }},
		"hidden":    {mixedSnapshot(), 80, 24, func(u *user) { u.presses("1", "/goose", "enter", "enter") }},
		"info":      {fullLockTable(), 80, 24, func(u *user) { u.presses("i") }},
		"help":      {mixedSnapshot(), 80, 40, func(u *user) { u.presses("?") }},
		"filter":    {mixedSnapshot(), 80, 24, func(u *user) { u.presses("/wor") }},
		"deadlock":  {deadlockSnapshot(), 80, 24, func(*user) {}},
		"lost": {mixedSnapshot(), 80, 24, func(u *user) {
			refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			u.send(snapshotMsg{err: fmt.Errorf("failed to connect to app@db.example:5432/shop: %w", errors.Join(refused, refused))})
		}},
		"rows":  {withRows(mixedSnapshot()), 120, 40, func(*user) {}},
		"empty": {emptySnapshot(), 80, 24, func(*user) {}},
		"many":  {manyLocks(5000), 80, 24, func(u *user) { u.presses("1", "end") }},
	} {
		t.Run(name, func(t *testing.T) {
			u := open(t, Options{First: test.snapshot, End: endNothing}, test.width, test.height)
			test.do(u)
			u.golden(name)
		})
	}
}

// visitAll opens all pages and panes, and calls look in each.
func visitAll(u *user, look func()) {
	for _, keys := range [][]string{{"1"}, {"2"}, {"enter"}, {"esc", "1", "enter"}, {"esc", "i"}, {"esc", "?"}, {"esc", "/e", "enter"}} {
		u.presses(keys...)
		look()
	}
}

func TestTheScreenIsFilledAndNotOverfilled(t *testing.T) {
	snapshots := []*monitor.Snapshot{mixedSnapshot(), deadlockSnapshot(), fullLockTable()}
	for i, size := range [][2]int{{1, 24}, {20, 1}, {79, 7}, {80, 24}, {100, 61}, {233, 24}} {
		width, height, snapshot := size[0], size[1], snapshots[i%len(snapshots)]
		u := open(t, Options{First: snapshot}, width, height)
		for _, err := range []error{nil, errors.New(strings.Repeat("no route to host ", 20))} {
			u.send(snapshotMsg{snapshot: snapshot, err: err})
			visitAll(u, func() {
				screen := u.screen()
				lines := strings.Split(screen, "\n")
				if len(lines) != height {
					t.Fatalf("%d lines on a screen of %d×%d:\n%s", len(lines), width, height, screen)
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

func TestColumnsHaveRoom(t *testing.T) {
	for number := range pages {
		for width := 80; width < 250; width++ {
			used := marker - 1
			for _, c := range columnsOf(number, width) {
				used += 1 + c.width
			}
			if used != width {
				t.Errorf("the columns of page %d take %d of %d", number, used, width)
			}
		}
	}
}

// hostile contains control sequences that must not reach the terminal.
const hostile = "\x1b[2J\x1b]0;x\a\n\r\t\u009b31m\u202etxet\x00\xff"

func TestForeignTextDoesNotControlTheTerminal(t *testing.T) {
	s := withRows(deadlockSnapshot())
	for i := range s.Locks {
		l := &s.Locks[i]
		l.Key, l.Names, l.Database, l.Guesses = hostile, []string{hostile}, hostile, []string{hostile}
		sessions := []*monitor.Session{&l.Holders[0].Session}
		for k := range l.Waiters {
			sessions = append(sessions, &l.Waiters[k].Session)
		}
		for _, session := range sessions {
			session.User, session.Database, session.Application, session.Client = hostile, hostile, hostile, hostile
			session.State, session.Query, session.WaitEventType, session.WaitEvent = hostile, hostile, hostile, hostile
			session.Process = hostile
			if session.Lease != nil {
				session.Lease.Host = hostile
			}
		}
		if !l.InRow {
			l.Holders = append(l.Holders, monitor.Holder{Mode: hostile, Session: monitor.Session{GID: hostile, User: hostile}})
		}
	}
	s.Cycles[0].Steps[0].Key, s.Cycles[0].Steps[0].Process = hostile, hostile
	s.Database, s.Role, s.ServerVersion = hostile, hostile, hostile
	s.NamesMissing, s.DetailsHidden, s.BlockersMissing, s.RowLocksMissing = hostile, hostile, hostile, hostile
	u := open(t, Options{First: s, Server: view.Server{Target: hostile}}, 120, 60)
	for _, err := range []error{nil, errors.New(hostile)} {
		u.send(snapshotMsg{snapshot: s, err: err})
		u.m.status = hostile
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
}

func TestUnchangedScreensAreNotSentAgain(t *testing.T) {
	u := open(t, Options{First: mixedSnapshot()}, 80, 24)
	before := u.m.View().Content
	u.snapshotArrives(mixedSnapshot())
	if after := u.m.View().Content; after != before {
		t.Errorf("an unchanged server changes the screen:\n%s\n%s", before, after)
	}
}

// styledLines returns the lines of the screen that contain a text, with their styles.
func (u *user) styledLines(text string) (lines []string) {
	for line := range strings.Lines(u.m.View().Content) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

var setColour = regexp.MustCompile(`\x1b\[[0-9;]*?\b(3[0-7]|9[0-7]|4[0-7]|10[0-7])(;[0-9;]*)?m([^\x1b]*)`)

// coloured returns the coloured texts of a line, and the number of each colour.
func coloured(line string) (texts []string) {
	for _, m := range setColour.FindAllStringSubmatch(line, -1) {
		texts = append(texts, m[1]+" "+strings.TrimSpace(m[3]))
	}
	return texts
}

// What a server said before it was lost has no colour, since it may not be so any more.
func TestTheRootIsRedAndOnlyTheWaitOfOthersIsColoured(t *testing.T) {
	u := open(t, Options{First: pileUp(3)}, 80, 24)
	u.snapshotArrives(mixedSnapshot())
	u.presses("end") // so that it is not the root that is selected
	root := u.styledLines("4711 payments ")
	if got := coloured(root[len(root)-1]); len(got) == 0 || slices.ContainsFunc(got, func(c string) bool { return !strings.HasPrefix(c, "31 ") }) ||
		!strings.Contains(root[len(root)-1], "1;31m") {
		t.Errorf("the root is drawn as %q", root)
	}
	for text, want := range map[string]string{"4712 worker-1": "35 12s", "4713 worker-2": "", "4715 writer": ""} {
		if got := strings.Join(coloured(u.styledLines(text)[0]), ", "); got != want {
			t.Errorf("of %s is coloured %q, want %q", text, got, want)
		}
	}
	u.send(snapshotMsg{err: errors.New("connection refused")})
	for _, line := range u.styledLines("4711 payments") {
		if got := coloured(line); len(got) > 0 {
			t.Errorf("%q are coloured", got)
		}
	}
	if s := newStyles(); s.ofWait(time.Minute).GetForeground() != s.tooLate.GetForeground() {
		t.Error("a wait of a minute is not red")
	}
}

func TestTheHeadlineFits(t *testing.T) {
	for _, test := range []struct {
		width, height int
		want          []string
	}{
		{40, 12, []string{" Terminate 4711 payments, idle in trans…", " 4 waiters"}},
		{80, 16, []string{" Terminate 4711 payments, idle in transaction for 5m00s, holds invoice:42", "   (excl): frees 2, longest wait 12s; 2 others wait", " 4 waiters"}},
		{200, 60, []string{"frees 2, longest wait 12s; 2 others wait", "   ran: SELECT work()", "   pglock terminate 4711@2026-11-20T11:00:00Z", " 4 waiters"}},
	} {
		u := open(t, Options{First: mixedSnapshot(), End: endNothing}, test.width, test.height)
		at := 0
		for _, want := range test.want {
			i := strings.Index(u.screen()[at:], want)
			if i < 0 {
				t.Fatalf("%d×%d does not show %q:\n%s", test.width, test.height, want, u.screen())
			}
			at += i
		}
	}
	u := open(t, Options{First: mixedSnapshot(), End: endNothing}, 44, 40)
	u.wants("ran: SELECT work()")
	u.wantsNot("pglock terminate") // half of it would end something else
}
