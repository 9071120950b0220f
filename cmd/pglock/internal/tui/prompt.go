package tui

import (
	"regexp"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// prompt is the input line: for a filter, or for the confirmation of a signal. It is never changed, only replaced.
type prompt struct {
	input textinput.Model
	// before is the filter to go back to, and err is the error of the new one.
	before filter
	err    error
	// pendingSignal is the signal to confirm; nil during the input of a filter.
	pendingSignal *pendingSignal
}

// filter is a regular expression as it was typed, and compiled.
type filter struct {
	text    string
	pattern *regexp.Regexp // nil lets everything through
}

// newInput returns an input without a blinking cursor, which would send data all the time, and without
// clipboard keys.
func newInput(label, text string) textinput.Model {
	input := textinput.New()
	input.Prompt = label
	input.SetVirtualCursor(false)
	input.SetStyles(textinput.Styles{})
	input.KeyMap.Paste.SetEnabled(false)
	input.SetValue(text)
	input.CursorEnd()
	input.Focus()
	return input
}

func newPrompt(before filter) *prompt {
	return &prompt{input: newInput("/", before.text), before: before}
}

func (p prompt) line() string {
	if p.err != nil {
		return p.input.View() + "   " + view.Printable(oneLine(p.err.Error()))
	}
	return p.input.View()
}

// typed handles a key during input. A filter is applied at once if it is valid.
func (m Model) typed(msg tea.Msg) (Model, tea.Cmd) {
	if m.typing.pendingSignal != nil {
		return m.judge(msg)
	}
	if press, ok := msg.(tea.KeyPressMsg); ok {
		switch {
		case key.Matches(press, m.keys.accept):
			return m.stopTyping()
		case key.Matches(press, m.keys.giveUp):
			m.filter = m.typing.before
			m.typing = nil
			return m.narrow()
		}
	}
	next := *m.typing
	next.input, _ = next.input.Update(msg) // its command only makes the cursor blink
	m.typing = &next
	pattern, err := compile(next.input.Value())
	next.err = err
	if err != nil {
		return m, nil
	}
	m.filter = filter{next.input.Value(), pattern}
	return m.narrow()
}

// stopTyping keeps the filter if it is valid; otherwise the input stays open.
func (m Model) stopTyping() (Model, tea.Cmd) {
	if m.typing.err == nil {
		m.typing = nil
	}
	return m, nil
}

// narrow asks for the rows that match the filter.
func (m Model) narrow() (Model, tea.Cmd) {
	m.question.filter = m.filter.pattern
	return m.ask()
}
