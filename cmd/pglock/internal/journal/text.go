package journal

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/internal/display"
	"github.com/pglock-toolkit/pglock/monitor"
)

// String describes the event in a line, without the time. It contains names and statements as they are: escape control
// characters before you write it to a terminal.
func (e Event) String() string {
	switch e.Kind {
	case WaitBegan:
		return fmt.Sprintf("%s: %s waits%s%s%s", e.lock(), e.Session, e.modeText(), inParens(e.Code), e.blockersText())
	case WaitEnded:
		return fmt.Sprintf("%s: %s stopped waiting%s%s", e.lock(), e.Session, e.waitedText(), e.reasonText())
	case Acquired:
		return fmt.Sprintf("%s: acquired by %s%s%s%s", e.lock(), e.Session, e.modeText(), e.waitedText(), afterComma(e.Code))
	case PassedOn:
		return fmt.Sprintf("%s: passed from %s to %s%s%s%s%s", e.lock(), parties(e.From), e.Session, e.modeText(), e.waitedText(),
			e.reasonText(), afterComma(e.Code))
	case Released:
		return fmt.Sprintf("%s: released by %s%s%s", e.lock(), e.Session, e.heldText(), e.reasonText())
	case SessionEnded:
		return fmt.Sprintf("session ended: %s", e.Session)
	case Deadlock, DeadlockOver:
		return e.deadlockText()
	case Gap:
		return "no snapshots: " + strings.TrimPrefix(strings.Join(strings.Fields(e.Reason), " "), "monitor: ") // users do not know packages
	}
	return string(e.Kind)
}

func (e Event) lock() string {
	if e.LockType == typeRow {
		return e.Key + " in a row"
	}
	return e.Key
}

func (e Event) modeText() string {
	if e.Mode == "exclusive" && (e.LockType == typeAdvisory || e.LockType == typeRow) {
		return "" // as usual
	}
	return inParens(display.Mode(e.Mode))
}

func (e Event) waitedText() string {
	switch {
	case e.SeenWaitingSeconds != nil:
		return " after ≥ " + display.Age(time.Duration(*e.SeenWaitingSeconds*float64(time.Second)))
	case e.WaitedSeconds == nil:
		return ""
	}
	return " after " + display.Age(time.Duration(*e.WaitedSeconds*float64(time.Second)))
}

func (e Event) reasonText() string {
	if e.Reason == "" {
		return ""
	}
	return " (" + e.Reason + ")"
}

func (e Event) heldText() string {
	if e.SeenSince == nil || e.After == nil {
		return ""
	}
	return ", held ≥ " + display.Age(e.After.Sub(*e.SeenSince))
}

func (e Event) blockersText() string {
	if len(e.BlockedBy) == 0 {
		return ""
	}
	first := e.BlockedBy[0]
	text := ", blocked by " + parties(e.BlockedBy)
	if len(e.BlockedBy) == 1 && first.SeenSince != nil && e.LockType != "row" {
		text += inParens(HeldText(*first.SeenSince, e.At) + afterComma(first.Code))
	}
	return text
}

// inParens returns a text in parentheses, which refers to the session before it.
func inParens(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

func (e Event) deadlockText() string {
	kind := "possible deadlock"
	if e.Certain {
		kind = "deadlock"
	}
	if e.Kind == DeadlockOver {
		kind += " over"
	}
	return kind + ": " + monitor.Cycle{Steps: e.Steps}.String() + Waits(e.Steps)
}

// Waits says what each session of a deadlock waits for: " (11 waits for invoice:42, 12 waits for @7)".
func Waits(steps []monitor.Step) string {
	var texts []string
	for _, s := range steps {
		texts = append(texts, s.String())
	}
	return inParens(strings.Join(texts, ", "))
}

// String returns the session's process ID and application.
func (p *Party) String() string {
	switch {
	case p == nil:
		return "?"
	case p.Holder != "" && p.Host != "":
		return fmt.Sprintf("%s (process %d on %s)", cmp.Or(p.Application, p.Holder), p.PID, p.Host)
	case p.Holder != "":
		return cmp.Or(p.Application, p.Holder)
	case p.PID == 0 && p.GID == "":
		return "a prepared transaction"
	case p.PID == 0:
		return fmt.Sprintf("prepared transaction %q", p.GID)
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", p.PID, p.Application))
}

func parties(all []Party) string {
	const most = 3
	var texts []string
	for i := range all[:min(most, len(all))] {
		texts = append(texts, all[i].String())
	}
	if len(all) > most {
		texts = append(texts, fmt.Sprintf("%d more", len(all)-most))
	}
	return strings.Join(texts, ", ")
}

// HeldText says how long a lock has been held at least, such as "held ≥ 4m00s, seen since 02:10:00", in now's time zone.
func HeldText(since, now time.Time) string {
	return fmt.Sprintf("held ≥ %s, seen since %s", display.Age(now.Sub(since)), since.In(now.Location()).Format("15:04:05"))
}

func afterComma(text string) string {
	if text == "" {
		return ""
	}
	return ", " + text
}

// maxStatement is how many bytes of a statement an event has.
const maxStatement = 2000

// codeOf returns the statement of a session, which names the code that runs it, unless it is one of pglock's own.
func codeOf(s *monitor.Session) string {
	if s.Query == "" || s.Process != "" {
		return ""
	}
	text := strings.Join(strings.Fields(s.Query), " ")
	if len(text) > maxStatement {
		text = strings.ToValidUTF8(text[:maxStatement], "")
	}
	return "statement: " + text
}
