package tui

import (
	"regexp"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// prompt is the input line, for a filter or for the confirmation of a signal. It is immutable.
type prompt struct {
	input textinput.Model
	// before is the filter to return to, and err the error of the new one.
	before filter
	err    error
	// question is what to confirm, or nil if the input is a filter.
	question *question
}

// filter is a regular expression, as typed and compiled.
type filter struct {
	text    string
	pattern *regexp.Regexp // nil matches everything
}

// newInput returns an input without clipboard keys. Its cursor does not blink, which would send data all the time.
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

// handleInput handles a key or pasted text during input. A valid filter is applied at once.
func (m Model) handleInput(msg tea.Msg) (Model, tea.Cmd) {
	if m.prompt.question != nil {
		return m.handleConfirmation(msg)
	}
	if press, ok := msg.(tea.KeyPressMsg); ok {
		switch {
		case key.Matches(press, m.keys.accept):
			return m.acceptFilter()
		case key.Matches(press, m.keys.restore):
			m.filter = m.prompt.before
			m.prompt = nil
			return m.applyFilter()
		}
	}
	next := *m.prompt
	next.input, _ = next.input.Update(msg) // the command only makes the cursor blink
	m.prompt = &next
	pattern, err := compile(next.input.Value())
	next.err = err
	if err != nil {
		return m, nil
	}
	m.filter = filter{next.input.Value(), pattern}
	return m.applyFilter()
}

// acceptFilter closes the input if the filter is valid.
func (m Model) acceptFilter() (Model, tea.Cmd) {
	if m.prompt.err == nil {
		m.prompt = nil
	}
	return m, nil
}

// applyFilter shows the rows that match the filter.
func (m Model) applyFilter() (Model, tea.Cmd) {
	m.query.filter = m.filter.pattern
	return m.rearrange()
}
