package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/term"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Control sequences that all terminals of today know
// (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // another screen, no cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// screen shows the latest snapshot in place, on a terminal.
type screen struct {
	db     database
	filter view.Filter
	out    *os.File
	opened bool
	last   *monitor.Snapshot
}

func newScreen(db database, filter view.Filter, out *os.File) *screen {
	return &screen{db: db, filter: filter, out: out}
}

func (s *screen) show(snapshot *monitor.Snapshot) error {
	s.last = snapshot
	return s.draw("")
}

// missed leaves the last snapshot there, under the reason why it is old.
func (s *screen) missed(err error) error {
	return s.draw(fmt.Sprintf("%v; no answer since %s, trying again",
		s.db.failed(err), s.last.TakenAt.Format("15:04:05 UTC")))
}

func (s *screen) draw(warning string) error {
	columns, rows, ok := term.Size(s.out)
	if !ok || columns <= 0 || rows <= 0 {
		columns, rows = 80, 24
	}
	var frame []string
	if warning != "" {
		frame = append(view.Wrap(view.Printable(warning), columns, ""), "")
	}
	frame = append(frame, view.Table(s.last, s.filter, s.db.target, columns)...)
	if len(frame) > rows {
		more := len(frame) - (rows - 1)
		frame = append(frame[:rows-1], fmt.Sprintf("… %d more lines (--waiting and --key show less)", more))
	}
	start := home
	if !s.opened {
		s.opened = true
		start = enterScreen + home
	}
	_, err := io.WriteString(s.out, start+strings.Join(frame, clearLine+"\r\n")+clearLine+clearBelow)
	return err
}

// close gives the terminal back, with the last snapshot on it.
func (s *screen) close() error {
	if !s.opened {
		return nil
	}
	_, err := io.WriteString(s.out, leaveScreen+lines(view.Table(s.last, s.filter, s.db.target, width())))
	return err
}

func lines(all []string) string { return strings.Join(all, "\n") + "\n" }
