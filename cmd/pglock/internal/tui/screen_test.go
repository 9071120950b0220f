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
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestScreens(t *testing.T) {
	for name, test := range map[string]struct {
		snapshot      *monitor.Snapshot
		width, height int
		do            func(*user)
	}{
		"keys":            {workshop(), 80, 24, func(*user) {}},
		"keys-wide":       {workshop(), 120, 40, func(*user) {}},
		"keys-tiny":       {workshop(), 40, 10, func(*user) {}},
		"tree":            {workshop(), 80, 24, func(u *user) { u.presses("2") }},
		"tree-narrow":     {workshop(), 60, 20, func(u *user) { u.presses("2") }},
		"tree-wide":       {workshop(), 120, 40, func(u *user) { u.presses("2") }},
		"sessions":        {workshop(), 80, 24, func(u *user) { u.presses("3") }},
		"sessions-narrow": {workshop(), 60, 20, func(u *user) { u.presses("3") }},
		"sessions-wide":   {workshop(), 120, 40, func(u *user) { u.presses("3") }},
		"key":             {workshop(), 80, 24, func(u *user) { u.presses("down", "enter") }},
		"session":         {workshop(), 80, 40, func(u *user) { u.presses("2", "down", "down", "enter") }},
		"hidden":          {workshop(), 80, 24, func(u *user) { u.presses("/goose", "enter", "enter") }},
		"prepared":        {workshop(), 80, 24, func(u *user) { u.presses("/order 7", "enter", "enter") }},
		"info":            {workshop(), 80, 24, func(u *user) { u.presses("i") }},
		"help":            {workshop(), 80, 40, func(u *user) { u.presses("?") }},
		"help-short":      {workshop(), 80, 24, func(u *user) { u.presses("?") }},
		"filter":          {workshop(), 80, 24, func(u *user) { u.presses("/wor") }},
		"filter-wrong":    {workshop(), 80, 24, func(u *user) { u.presses("/wor(") }},
		"filtered":        {workshop(), 80, 24, func(u *user) { u.presses("/read", "enter", "w") }},
		"follow":          {workshop(), 80, 24, func(u *user) { u.presses("f"); u.sees(deadlock()) }},
		"deadlock":        {deadlock(), 80, 24, func(u *user) { u.presses("2") }},
		"deadlock-info":   {deadlock(), 80, 24, func(u *user) { u.presses("i") }},
		"lost": {workshop(), 80, 24, func(u *user) {
			refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			u.send(taken{err: fmt.Errorf("failed to connect to app@db.example:5432/shop: %w", errors.Join(refused, refused))})
		}},
		"slow": {workshop(), 80, 24, func(u *user) {
			u.send(taken{err: fmt.Errorf("cannot read advisory locks: %w", context.DeadlineExceeded)})
		}},
		"full":          {full(), 80, 24, func(*user) {}},
		"possible":      {possible(), 80, 24, func(*user) {}},
		"possible-info": {possible(), 80, 24, func(u *user) { u.presses("i") }},
		"old":           {old(), 80, 24, func(u *user) { u.presses("2") }},
		"old-keys":      {old(), 80, 24, func(*user) {}},
		"paused":        {workshop(), 80, 24, func(u *user) { u.presses("space") }},
		"empty":         {&monitor.Snapshot{TakenAt: noon, ServerVersion: "16.4", Database: "shop"}, 80, 24, func(*user) {}},
		"many":          {crowd(5000), 80, 24, func(u *user) { u.presses("u", "end") }},
		"groups":        {crowd(5000), 80, 24, func(*user) {}},
	} {
		t.Run(name, func(t *testing.T) {
			u := start(t, Options{First: test.snapshot, End: unsent}, test.width, test.height)
			test.do(u)
			u.golden(name)
		})
	}
}

// everywhere shows a snapshot in all ways.
func everywhere(u *user, look func()) {
	for _, keys := range [][]string{{"1"}, {"2"}, {"3"}, {"enter"}, {"esc", "1", "enter"}, {"esc", "i"}, {"l"}, {"?"},
		{"esc", "f"}, {"/.", "enter"}, {"y"}} {
		u.presses(keys...)
		look()
	}
}

func TestTheScreenIsFilledAndNotOverfilled(t *testing.T) {
	for _, width := range []int{1, 20, 79, 80, 100, 233} {
		for _, height := range []int{1, 7, 24, 61} {
			for _, snapshot := range []*monitor.Snapshot{workshop(), deadlock(), crowd(100)} {
				u := start(t, Options{First: snapshot}, width, height)
				u.send(taken{err: errors.New(strings.Repeat("no route to host ", 20))})
				everywhere(u, func() {
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
			for _, c := range layout(number, width) {
				used += 1 + c.width
			}
			if used != width && (used > width || number == pageTree) {
				t.Errorf("the columns of page %d take %d of %d", number, used, width)
			}
		}
	}
}

// evil does to a terminal what foreign text must not do.
const evil = "\x1b[2J\x1b]0;x\a\n\r\t\u009b31m\u202etxet\x00\xff"

func TestNothingThatOthersWroteControlsTheTerminal(t *testing.T) {
	s := deadlock()
	for i := range s.Locks {
		l := &s.Locks[i]
		l.Key, l.Names, l.Database = evil, []string{evil}, evil
		l.Guesses = []monitor.Guess{{Tool: evil, Text: evil, Confidence: monitor.ConfidencePossible}}
		for _, session := range []*monitor.Session{&l.Holders[0].Session, &l.Waiters[0].Session} {
			session.User, session.Database, session.Application, session.Client = evil, evil, evil, evil
			session.State, session.Query, session.WaitEventType, session.WaitEvent = evil, evil, evil, evil
			session.Process = evil
		}
		l.Holders = append(l.Holders, monitor.Holder{Mode: evil, Session: monitor.Session{GID: evil, User: evil}})
	}
	s.Cycles[0].Steps[0].Key, s.Cycles[0].Steps[0].Process = evil, evil
	s.Database, s.Role, s.ServerVersion = evil, evil, evil
	s.NamesMissing, s.DetailsHidden, s.BlockersMissing = evil, evil, evil
	u := start(t, Options{First: s, Target: evil}, 120, 60)
	u.send(taken{err: errors.New(evil)})
	everywhere(u, func() {
		for _, r := range u.screen() { // styles are stripped, and nothing else is
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("there is a %U on the screen:\n%q", r, u.screen())
			}
		}
		if content := u.m.View().Content; strings.Contains(ansi.Strip(content), "\x1b") ||
			strings.Contains(content, "\x1b[2J") || strings.Contains(content, "\x1b]") {
			t.Fatalf("it controls the terminal: %q", content)
		}
	})
}

func TestWhatDidNotChangeIsNotSentAgain(t *testing.T) {
	u := start(t, Options{First: workshop()}, 80, 24)
	u.sees(workshop()) // fills the trends by one bar
	for range remembered {
		u.sees(workshop())
	}
	before := u.m.View().Content
	u.sees(workshop())
	if after := u.m.View().Content; after != before {
		t.Errorf("an unchanged server changes the screen:\n%s\n%s", before, after)
	}
}

func TestUpdateChangesNoModelButItsOwn(t *testing.T) {
	u := start(t, Options{First: workshop()}, 80, 24)
	u.presses("down", "f", "/work")
	kept := u.m
	before := kept.View().Content
	u.presses("xyz", "esc", "2", "end", "f", "s", "S", "w", "i", "pgdown")
	u.sees(deadlock())
	u.send(taken{err: errors.New("gone")})
	if after := kept.View().Content; after != before {
		t.Errorf("an older model shows\n%s\ninstead of\n%s", after, before)
	}
}

func TestLogsOfOneModelDoNotMix(t *testing.T) {
	m := start(t, Options{First: workshop()}, 80, 24).m
	for i := range 3 { // so that there is room behind the last entry
		m = m.say(fmt.Sprint("entry ", i))
	}
	one, other := m.say("one"), m.say("other")
	if !strings.HasSuffix(one.log.latest(), "one") || !strings.HasSuffix(other.log.latest(), "other") {
		t.Errorf("the logs end with %q and %q", one.log.latest(), other.log.latest())
	}
}

func TestKeysThatOtherCommandsReadAreCopied(t *testing.T) {
	strange := lock(pglock.NewKey("rm -rf /\n"))
	for _, test := range []struct {
		lock monitor.Lock
		want string
	}{
		{lock(pglock.NewKey("invoice:42")), "invoice:42"},
		{lock(pglock.PairKey(7, -42)), "@7/-42"},
		{strange, pglock.Int64Key(strange.Number).String()},
	} {
		if got := copyable(&test.lock); got != test.want {
			t.Errorf("%q is copied as %q, want %q", test.lock.Key, got, test.want)
		}
	}
}

func TestAQueryKeepsItsLines(t *testing.T) {
	shown := &text{width: 40}
	shown.query(func(_, line string) string { return view.Printable(line) }, "-- why\r\n\n\tselect 1;\n")
	if want := []string{"   query        -- why", "                select 1;"}; !slices.Equal(shown.lines, want) {
		t.Errorf("got %q, want %q", shown.lines, want)
	}
}
