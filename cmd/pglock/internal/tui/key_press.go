package tui

import (
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

func (m Model) handleKey(press tea.KeyPressMsg) (Model, tea.Cmd) {
	switch {
	case m.prompt != nil:
		return m.handleInput(press)
	case m.inspecting && !key.Matches(press, m.keys.goBack): // typed ahead, for the question that is about to be asked
		return m, nil
	case m.pane != nil:
		return m.handlePaneKey(press)
	}
	return m.handleRowsKey(press)
}

// movement returns how many lines a key moves by; height is the height of the page.
func (m Model) movement(press tea.KeyPressMsg, height int) (by int, moves bool) {
	const far = 1 << 30
	for _, move := range []struct {
		binding key.Binding
		by      int
	}{
		{m.keys.up, -1}, {m.keys.down, 1}, {m.keys.pageUp, -height}, {m.keys.pageDown, height},
		{m.keys.top, -far}, {m.keys.bottom, far},
	} {
		if key.Matches(press, move.binding) {
			return move.by, true
		}
	}
	return 0, false
}

// handleRowsKey handles a key while the rows are shown.
func (m Model) handleRowsKey(press tea.KeyPressMsg) (Model, tea.Cmd) {
	page := m.table.query.page
	if by, moves := m.movement(press, m.rowsHeight()); moves {
		m.cursors[page] = m.cursors[page].move(by, m.table.rows)
		if key.Matches(press, m.keys.top) {
			m.cursors[page] = cursor{}
		}
		return m, nil
	}
	k := m.keys
	switch {
	case key.Matches(press, k.next):
		return m.showPage((m.query.page + 1) % pages)
	case key.Matches(press, k.keys):
		return m.showPage(pageKeys)
	case key.Matches(press, k.tree):
		return m.showPage(pageTree)
	case key.Matches(press, k.allWaits):
		m.all = !m.all
		m.opening = m.all && page == pageKeys // which does not have these waits
		return m.takeSnapshots(true)
	case key.Matches(press, k.filter):
		m.prompt = newPrompt(m.filter)
		return m, nil
	case key.Matches(press, k.back):
		m.filter = filter{}
		return m.applyFilter()
	case key.Matches(press, k.fold):
		m.query = m.query.refold()
		return m.rearrange()
	case key.Matches(press, k.unfoldRow):
		return m.unfoldRow()
	case key.Matches(press, k.foldRow):
		return m.foldRow()
	case key.Matches(press, k.toggleRow):
		return m.toggleRow()
	case key.Matches(press, k.open):
		return m.openDetails()
	}
	return m.handleCommonKey(press)
}

// handleCommonKey handles the keys that mean the same in the rows and in a pane.
func (m Model) handleCommonKey(press tea.KeyPressMsg) (Model, tea.Cmd) {
	k := m.keys
	switch {
	case key.Matches(press, k.quit):
		return m, tea.Quit
	case key.Matches(press, k.suspend):
		return m, tea.Suspend
	case key.Matches(press, k.help):
		return m.open(pane{title: helpTitle, write: helpText})
	case key.Matches(press, k.info):
		return m.open(pane{title: "about the server", write: infoText})
	case key.Matches(press, k.log):
		return m.open(pane{title: "log", write: logText, tail: true})
	case key.Matches(press, k.journal):
		return m.open(pane{title: "journal of contended keys", write: journalText, tail: true})
	case key.Matches(press, k.pause):
		m.paused = !m.paused
		if m.paused {
			return m, nil
		}
		return m.takeSnapshots(false)
	case key.Matches(press, k.refresh):
		return m.takeSnapshots(true)
	case key.Matches(press, k.back1):
		return m.seek(-time.Minute)
	case key.Matches(press, k.forward1):
		return m.seek(time.Minute)
	case key.Matches(press, k.back10):
		return m.seek(-10 * time.Minute)
	case key.Matches(press, k.forward10):
		return m.seek(10 * time.Minute)
	case key.Matches(press, k.cancel):
		return m.prepareSignal("cancel")
	case key.Matches(press, k.terminate):
		return m.prepareSignal("terminate")
	}
	return m, nil
}

func (m Model) showPage(to page) (Model, tea.Cmd) {
	m.query.page, m.opening = to, false
	return m.rearrange()
}

// selectedRow returns the selected row, or false if there is none.
func (m Model) selectedRow() (row, bool) {
	at := m.cursors[m.table.query.page].at
	if at >= len(m.table.rows) {
		return row{}, false
	}
	return m.table.rows[at], true
}

// addLog adds an entry to the log. The status line shows the last one.
func (m Model) addLog(text string) Model {
	m.log = m.log.add(m.snapshot.TakenAt, text)
	return m
}
