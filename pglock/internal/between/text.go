package between

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Wait is a call that has waited for long, and holds something.
type Wait struct {
	// ID stands for the wait for as long as it lasts, and Began, in microseconds, is of the server's clock. Answers is how many the
	// process had got to its looks when it made the text.
	ID
	Began, Answers int64
	// Wants are the locks that the call needs: all of them, or with Some so many of them.
	Wants  []driver.KeyID
	Some   int
	Shared bool // it wants them shared
	Holds  []Claim
	Txs    []Tx // whose work it is

	// Role is whose the process is. The reader knows it, the process, and the application.
	Role, Application string
	// SeesAll says that the process sees locks in rows, too.
	SeesAll bool
}

// ID is a wait. Process is the session that has published it, or the id of a process with locks in rows, and Number is unique
// there.
type ID struct {
	Process string
	Number  int64
}

// Claim says that a call holds a lock, and by what: a session, or a process with locks in rows.
type Claim struct {
	Key   driver.KeyID
	Owner string
}

// Rows is added to the Space of a lock in a row.
const Rows driver.Space = 10

// Tx is a transaction: its session, and when it began, in microseconds.
type Tx struct {
	PID   string
	Began int64
}

// Prefix begins the text of a statement that publishes waits.
const Prefix = "/* pglock waits"

// Text returns the waits as the beginning of a statement of at most room bytes, and for which of them there was room.
func Text(waits []Wait, room int) (text string, written []bool) {
	if len(waits) == 0 {
		return "", nil
	}
	var b strings.Builder
	b.WriteString(Prefix)
	for _, w := range waits {
		one := w.text()
		fits := b.Len()+len(one)+len(end) <= room
		if fits {
			b.WriteString(one)
		}
		written = append(written, fits)
	}
	return b.String() + end, written
}

const end = " */ "

// text is for Parse and for queries/waits.sql. The server may cut it anywhere.
func (w Wait) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, " %d@%d@%d", w.Number, w.Began, w.Answers)
	if w.Some > 0 {
		fmt.Fprintf(&b, " *%d", w.Some)
	}
	sign := '-'
	if w.Shared {
		sign = '='
	}
	for _, key := range w.Wants {
		fmt.Fprintf(&b, " %c%d:%016x", sign, key.Space, uint64(key.Number))
	}
	for _, claim := range w.Holds {
		fmt.Fprintf(&b, " +%d:%016x/%s", claim.Key.Space, uint64(claim.Key.Number), claim.Owner)
	}
	for _, tx := range w.Txs {
		fmt.Fprintf(&b, " ~%s/%d", tx.PID, tx.Began)
	}
	return b.String() + ";"
}

var word = regexp.MustCompile(`^(?:(\d+)@(\d+)@(\d+)|\*(\d{1,6})|([-=])(\d\d?):([0-9a-f]{16})|\+(\d\d?):([0-9a-f]{16})/([-0-9a-z]+)|~(\d+)/(\d+))$`)

// Parse reads what Text has made, without its beginning. A wait that is not complete, or not understood, does not count.
func Parse(text string) (waits []Wait) {
	parts := strings.Split(text, ";")
	for _, part := range parts[:len(parts)-1] {
		if w, ok := parse(part); ok {
			waits = append(waits, w)
		}
	}
	return waits
}

func parse(text string) (w Wait, ok bool) {
	for _, field := range strings.Fields(text) {
		m := word.FindStringSubmatch(field)
		if m == nil {
			return w, false
		}
		switch {
		case m[1] != "":
			w.Number, w.Began, w.Answers = number(m[1]), number(m[2]), number(m[3])
		case m[4] != "":
			w.Some = int(number(m[4]))
		case m[5] != "":
			w.Wants, w.Shared = append(w.Wants, keyID(m[6], m[7])), m[5] == "="
		case m[8] != "":
			w.Holds = append(w.Holds, Claim{keyID(m[8], m[9]), m[10]})
		default:
			w.Txs = append(w.Txs, Tx{m[11], number(m[12])})
		}
	}
	return w, w.Number > 0
}

func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64) // too large is the largest
	return n
}

func keyID(space, hex string) driver.KeyID {
	n, _ := strconv.ParseUint(hex, 16, 64)
	return driver.KeyID{Space: driver.Space(number(space)), Number: int64(n)}
}
