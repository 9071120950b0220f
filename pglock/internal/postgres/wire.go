package postgres

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// wire writes statements to a connection on which one goroutine reads all the time. Whoever writes must have the
// session to himself; see mainSession.
type wire struct {
	front    *pgproto3.Frontend
	bind     pgproto3.Bind
	args     [3][]byte // of bind, so that it need not be allocated
	scratch  []byte
	textForm []byte
}

var (
	binaryFormat = []int16{1}
	execute      pgproto3.Execute
	syncMessage  pgproto3.Sync
)

// execute runs a prepared statement, as soon as sync follows.
func (w *wire) execute(name string, args int) {
	w.bind = pgproto3.Bind{PreparedStatement: name, ParameterFormatCodes: binaryFormat, Parameters: w.args[:args]}
	w.front.SendBind(&w.bind)
	w.front.SendExecute(&execute)
}

// sync ends what is sent, and sends it in one write. While that fits one segment it arrives all together or not at all,
// which matters to the lease: the server watches for silence only while it has not begun to read a statement.
func (w *wire) sync() error {
	w.front.SendSync(&syncMessage)
	return w.front.Flush()
}

// sendQuery runs SQL without parameters, in a single message.
func (w *wire) sendQuery(sql string) error {
	w.front.SendQuery(&pgproto3.Query{String: sql})
	return w.front.Flush()
}

// literal puts arguments, which are numbers and arrays of numbers in text form, in the places of the parameters.
func literal(sql string, args []string) string {
	pairs := make([]string, 0, 2*len(args))
	for i, arg := range args {
		pairs = append(pairs, "$"+strconv.Itoa(i+1), "'"+arg+"'")
	}
	return strings.NewReplacer(pairs...).Replace(sql)
}

// one runs a statement for one bigint, as soon as sync follows.
func (w *wire) one(name string, pid int32, number int64) {
	w.scratch = binary.BigEndian.AppendUint32(w.scratch[:0], uint32(pid))
	w.scratch = binary.BigEndian.AppendUint64(w.scratch, uint64(number))
	w.args = [3][]byte{w.scratch[:4], w.scratch[4:12]}
	w.execute(name, 2)
}

// batch runs a statement over operations and numbers. A large one goes as a single message instead of three, so that it
// cannot arrive in part and leave the server in the middle of a statement.
func (w *wire) batch(name string, pid int32, operations []int16, numbers []int64) error {
	if len(numbers) > segment {
		w.textForm = appendExecute(w.textForm[:0], name, pid, operations, numbers)
		return w.sendQuery(string(w.textForm))
	}
	w.scratch = appendInt2s(w.scratch[:0], operations)
	split := len(w.scratch)
	w.scratch = appendInt8s(w.scratch, numbers)
	end := len(w.scratch)
	w.scratch = binary.BigEndian.AppendUint32(w.scratch, uint32(pid))
	w.args = [3][]byte{w.scratch[:split], w.scratch[split:end], w.scratch[end:]}
	w.execute(name, 3)
	return w.sync()
}

// segment is how many operations fit one TCP segment of 1,460 bytes: 18 bytes each, and 100 for the rest.
const segment = 64

// appendExecute writes an EXECUTE of the prepared statement with literals.
func appendExecute(b []byte, name string, pid int32, operations []int16, numbers []int64) []byte {
	b = append(b, "EXECUTE "...)
	b = append(b, name...)
	b = append(b, "('{"...)
	for i, n := range operations {
		b = appendComma(b, i)
		b = strconv.AppendInt(b, int64(n), 10)
	}
	b = append(b, "}','{"...)
	for i, n := range numbers {
		b = appendComma(b, i)
		b = strconv.AppendInt(b, n, 10)
	}
	b = append(b, "}',"...)
	b = strconv.AppendInt(b, int64(pid), 10)
	return append(b, ')')
}

func appendComma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

// Object identifiers of pg_type.dat.
const (
	oidInt8 = 20
	oidInt2 = 21
	oidInt4 = 23
)

func appendInt2s(b []byte, values []int16) []byte {
	b = appendArrayHeader(b, oidInt2, len(values))
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, 2)
		b = binary.BigEndian.AppendUint16(b, uint16(v))
	}
	return b
}

func appendInt8s(b []byte, values []int64) []byte {
	b = appendArrayHeader(b, oidInt8, len(values))
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, 8)
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// appendArrayHeader writes what array_recv reads before the elements: one dimension that starts at 1, without nulls.
func appendArrayHeader(b []byte, oid uint32, n int) []byte {
	for _, v := range [...]uint32{1, 0, oid, uint32(n), 1} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// parseBools reads a boolean, or an array of n of them, in text form.
func parseBools(text []byte, into []bool, n int) ([]bool, error) {
	into = into[:0]
	for _, c := range text {
		switch c {
		case 't':
			into = append(into, true)
		case 'f':
			into = append(into, false)
		case '{', '}', ',':
		default:
			return nil, fmt.Errorf("unexpected answer %q from the server", text)
		}
	}
	if len(into) != n {
		return nil, fmt.Errorf("the server answered for %d of %d operations", len(into), n)
	}
	return into, nil
}

// answer is what the server said to a statement.
type answer struct {
	row  []byte // the first columns of the rows, one behind the other
	some bool   // there was a row, and no column was NULL
	null bool
	err  *pgconn.PgError
}

func (a *answer) reset() { *a = answer{row: a.row[:0]} }

// take notes what a message adds to the answer, and reports whether it is complete.
func (a *answer) take(message pgproto3.BackendMessage) (complete bool) {
	switch m := message.(type) {
	case *pgproto3.DataRow:
		if len(m.Values) > 0 {
			a.row = append(a.row, m.Values[0]...)
			a.null = a.null || m.Values[0] == nil
			a.some = !a.null
		}
	case *pgproto3.ErrorResponse:
		a.err = pgconn.ErrorResponseToPgError(m)
	case *pgproto3.ReadyForQuery:
		return true
	}
	return false
}

// arrayText writes an array in text form.
func arrayText[N int16 | int64](numbers []N) string {
	b := []byte{'{'}
	for i, n := range numbers {
		b = strconv.AppendInt(appendComma(b, i), int64(n), 10)
	}
	return string(append(b, '}'))
}
