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
	// Number is unique in its process, and Began, in microseconds, is of the server's clock.
	Number, Began int64
	// Wants are the locks that the call needs: all of them, or with Some so many of them.
	Wants  []driver.KeyID
	Some   int
	Shared bool // it wants them shared
	Holds  []Claim
	Txs    []Tx // whose work it is

	// Process is the session that has published it, or the id of a process with locks in rows; Role is whose that is. The
	// reader knows them, and the application.
	Process, Role, Application string
	// SeesAll says that the process sees locks in rows, too.
	SeesAll bool
}

// Claim says that a call holds a lock, and by what: a session, or a process with locks in rows.
type Claim struct {
	Key   driver.KeyID
	Owner string
}

// Turn is the Owner of keys at which a call has its turn in the queues of its process. The server may not have granted them.
const Turn = "turn"

// Rows is added to the Space of a lock in a row.
const Rows driver.Space = 10

// Tx is a transaction: its session, and when it began, in microseconds.
type Tx struct {
	PID   string
	Began int64
}

// Prefix begins the text of a statement that publishes waits.
const Prefix = "/* pglock waits"

// Text returns the waits as the beginning of a statement of at most room bytes, and how many there was room for.
func Text(waits []Wait, room int) (text string, written int) {
	var b strings.Builder
	b.WriteString(Prefix)
	for _, w := range waits {
		one := w.text()
		if b.Len()+len(one)+len(end) > room {
			break
		}
		b.WriteString(one)
		written++
	}
	return b.String() + end, written
}

const end = " */ "

// text is for Parse and for queries/waits.sql. The server may cut it anywhere.
func (w Wait) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, " %d@%d", w.Number, w.Began)
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

var word = regexp.MustCompile(`^(?:(\d+)@(\d+)|\*(\d{1,6})|([-=])(\d\d?):([0-9a-f]{16})|\+(\d\d?):([0-9a-f]{16})/([-0-9a-z]+)|~(\d+)/(\d+))$`)

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
			w.Number, w.Began = number(m[1]), number(m[2])
		case m[3] != "":
			w.Some = int(number(m[3]))
		case m[4] != "":
			w.Wants, w.Shared = append(w.Wants, keyID(m[5], m[6])), m[4] == "="
		case m[7] != "":
			w.Holds = append(w.Holds, Claim{keyID(m[7], m[8]), m[9]})
		default:
			w.Txs = append(w.Txs, Tx{m[10], number(m[11])})
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
