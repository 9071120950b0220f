package tui

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// clicks clicks on the first occurrence of text on the screen.
func (u *user) clicks(text string) {
	u.t.Helper()
	for y, line := range strings.Split(u.screen(), "\n") {
		if before, _, ok := strings.Cut(line, text); ok {
			u.send(tea.MouseClickMsg{X: view.Columns(before), Y: y, Button: tea.MouseLeft})
			return
		}
	}
	u.t.Fatalf("there is no %q to click on\n%s", text, u.screen())
}

func TestTheMouseChooses(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 120, 30)
	u.clicks("@7/-42")
	u.wantsSelected("@7/-42")
	u.wants("[1] KEYS")
	u.clicks("@7/-42")
	u.wants("── key @7/-42")
	u.clicks("database") // nothing is chosen below a pane
	u.wants("── key @7/-42")
	u.presses("esc")
	u.clicks("HOLD")
	u.wants("by holders")
	u.clicks("HOLD")
	u.wants("by holders, reversed")
	u.clicks("WAIT ")
	u.wants("by waiters")
	u.wantsNot("reversed")
	u.clicks("TREND") // cannot be sorted by
	u.wants("by waiters")
	u.clicks("[2] Tree")
	u.wants("[2] TREE")
	u.clicks("BEHIND")
	u.wants("by sessions behind, reversed")
	u.clicks("[3] Sessions")
	u.clicks("[1] Keys")
	u.wants("[1] KEYS")
	before := u.screen()
	for _, y := range []int{-1, 0, 28, 29, 100} { // header, empty lines, footer, beyond
		u.send(tea.MouseClickMsg{X: 3, Y: y, Button: tea.MouseLeft})
	}
	u.send(tea.MouseClickMsg{X: 3, Y: 6, Button: tea.MouseRight})
	if u.screen() != before {
		t.Errorf("a click beside the rows does something\n%s", u.screen())
	}
}

func TestTheWheelScrolls(t *testing.T) {
	u := start(t, Options{First: manyLocks(500)}, 80, 24)
	u.presses("u", "s", "s", "s") // by key
	u.wantsSelected("job:0")
	u.send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	u.wantsSelected("job:100")
	u.send(tea.MouseWheelMsg{Button: tea.MouseWheelUp})
	u.wantsSelected("job:0")
	u.send(tea.MouseWheelMsg{Button: tea.MouseWheelLeft})
	u.wantsSelected("job:0")
	u.presses("?")
	u.send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	u.wants("lines 4-")
}

func TestTheMouseCanBeLeftToTheTerminal(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot(), NoMouse: true}, 80, 24)
	if mode := u.m.View().MouseMode; mode != tea.MouseModeNone {
		t.Errorf("with NoMouse the mode is %v", mode)
	}
	u.presses("m")
	if mode := u.m.View().MouseMode; mode != tea.MouseModeCellMotion {
		t.Errorf("after m the mode is %v", mode)
	}
	u.presses("m")
	u.wants("the mouse is left to the terminal")
	if mode := u.m.View().MouseMode; mode != tea.MouseModeNone {
		t.Errorf("after m again the mode is %v", mode)
	}
}

func TestHelpOpensAndClosesWithOneKey(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 80, 24)
	u.presses("?")
	u.wants("── help")
	u.presses("?")
	u.wantsNot("── help")
}

func TestTheScreenIsRedrawn(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 80, 24)
	u.presses("ctrl+l")
	if u.command == nil || reflect.TypeOf(u.command()) != reflect.TypeOf(tea.ClearScreen()) {
		t.Error("Ctrl-L does not clear the screen")
	}
}

// Signals are confirmed with keys only.
func TestClicksAreIgnoredDuringInput(t *testing.T) {
	u := start(t, Options{First: mixedSnapshot()}, 80, 24)
	u.presses("/inv")
	before := u.screen()
	u.clicks("[3] Sessions")
	if u.screen() != before {
		t.Errorf("a click while a filter is typed does something\n%s", u.screen())
	}
}

func TestEveryOrderHasATitleOfItsPage(t *testing.T) {
	for page, orders := range orders {
		for _, order := range orders {
			if !slices.ContainsFunc(columnsOf(pageOf(page), 80), func(c column) bool { return order.sorts(c.title) }) {
				t.Errorf("page %d has no column for %q", page, order.name)
			}
		}
	}
}

func pageOf(i int) page { return page(i) }
