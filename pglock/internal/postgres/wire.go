package postgres

import (
	"bytes"
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
	front   *pgproto3.Frontend
	bind    pgproto3.Bind
	args    [2][]byte // of bind, so that it need not be allocated
	scratch []byte
	text    textQuery
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

// guarded puts the process ID for the guard against proxies in the place of the parameter that follows the others.
func guarded(sql string, others int, pid int32) string {
	return strings.ReplaceAll(sql, "$"+strconv.Itoa(others+1), strconv.Itoa(int(pid)))
}

// one runs a statement for one bigint, as soon as sync follows.
func (w *wire) one(name string, number int64) {
	w.scratch = binary.BigEndian.AppendUint64(w.scratch[:0], uint64(number))
	w.args[0] = w.scratch
	w.execute(name, 1)
}

// sendBatch runs a statement over two arrays. A large one goes as a single message instead of three, so that it cannot
// arrive in part and leave the server in the middle of a statement.
func sendBatch[N int16 | int64](w *wire, name string, first []N, second []int64) error {
	if (len(first)+len(second))*elementSize > segment {
		w.text = appendExecute(w.text[:0], name, first, second)
		w.front.Send(&w.text)
		return w.front.Flush()
	}
	w.scratch = appendArray(w.scratch[:0], first)
	split := len(w.scratch)
	w.scratch = appendArray(w.scratch, second)
	w.args = [2][]byte{w.scratch[:split], w.scratch[split:]}
	w.execute(name, 2)
	return w.sync()
}

// textQuery is pgproto3.Query for a text in a buffer.
type textQuery []byte

// Frontend implements [pgproto3.FrontendMessage].
func (*textQuery) Frontend() {}

// Decode implements [pgproto3.FrontendMessage].
func (q *textQuery) Decode(body []byte) error {
	*q = bytes.TrimSuffix(bytes.Clone(body), []byte{0})
	return nil
}

// Encode implements [pgproto3.FrontendMessage].
func (q *textQuery) Encode(to []byte) ([]byte, error) {
	to = append(to, 'Q')
	to = binary.BigEndian.AppendUint32(to, uint32(4+len(*q)+1))
	return append(append(to, *q...), 0), nil
}

const (
	// segment is how many bytes of arrays fit one TCP segment of 1,460 bytes: the rest needs 100.
	segment = 1360
	// elementSize is what an int8 needs; an int2 needs half.
	elementSize = 12
)

// appendExecute writes an EXECUTE of the prepared statement with literals.
func appendExecute[N int16 | int64](b []byte, name string, first []N, second []int64) []byte {
	b = append(b, "EXECUTE "...)
	b = append(b, name...)
	b = append(b, "('"...)
	b = appendArrayText(b, first)
	b = append(b, "','"...)
	b = appendArrayText(b, second)
	return append(b, "')"...)
}

// Object identifiers of pg_type.dat.
const (
	oidInt8 = 20
	oidInt2 = 21
)

// appendArray writes what array_recv reads: one dimension that starts at 1, without nulls.
func appendArray[N int16 | int64](b []byte, values []N) []byte {
	oid, size := uint32(oidInt8), uint32(8)
	if _, small := any(values).([]int16); small {
		oid, size = oidInt2, 2
	}
	for _, v := range [...]uint32{1, 0, oid, uint32(len(values)), 1} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, size)
		if size == 2 {
			b = binary.BigEndian.AppendUint16(b, uint16(v))
		} else {
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		}
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
func arrayText[N int16 | int64](numbers []N) string { return string(appendArrayText(nil, numbers)) }

func appendArrayText[N int16 | int64](b []byte, numbers []N) []byte {
	b = append(b, '{')
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, '}')
}
