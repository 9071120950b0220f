package wire

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Operation says what to do with one key. It is a sum of the constants below.
type Operation = int16

// The parts of an Operation. Zero is a try for an exclusive lock of the bigint space.
const (
	Pair    Operation = 1
	Shared  Operation = 2
	Release Operation = 4
)

// Batch is what one statement does, key by key: releases first, then tries. No key is in it twice.
type Batch struct {
	Operations []Operation
	Numbers    []int64
}

// Add appends an operation.
func (b *Batch) Add(op Operation, number int64) {
	b.Operations = append(b.Operations, op)
	b.Numbers = append(b.Numbers, number)
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.Operations, b.Numbers = b.Operations[:0], b.Numbers[:0] }

// plain reports whether all keys are exclusive ones of the bigint space, which have separate statements, and how many
// releases come first.
func (b *Batch) plain() (releases int, plain bool) {
	for _, op := range b.Operations {
		switch op {
		case Release:
			releases++
		case 0:
		default:
			return 0, false
		}
	}
	return releases, true
}

// SendBatch writes the statement for b, whose answer has a boolean for each key: whether it was carried out.
func (c *Conn) SendBatch(b *Batch) error {
	releases, plain := b.plain()
	switch {
	case !plain:
		return sendArrays(c, c.names.batch, b.Operations, b.Numbers)
	case len(b.Numbers) > fewKeys:
		return sendArrays(c, c.names.plainBatch, b.Numbers[:releases], b.Numbers[releases:])
	}
	for i, number := range b.Numbers { // a few statements in a row cost less than one over arrays
		name := c.names.try
		if i < releases {
			name = c.names.unlock
		}
		c.scratch = binary.BigEndian.AppendUint64(c.scratch[:0], uint64(number))
		c.args[0] = c.scratch
		c.execute(name, 1)
	}
	return c.sync()
}

// SendQuestion writes the statement that asks, key by key, which locks of b the session holds. Exclusive ones of the bigint
// space need no operations.
func (c *Conn) SendQuestion(b *Batch) error {
	operations := b.Operations
	if _, plain := b.plain(); plain {
		operations = nil
	}
	return sendArrays(c, c.names.reconcile, operations, b.Numbers)
}

// SendQuery runs SQL in a single message. The arguments, in text form, take the places of the parameters.
func (c *Conn) SendQuery(sql string, args ...string) error {
	if len(args) > 0 {
		pairs := make([]string, 0, 2*len(args))
		for i, arg := range args {
			pairs = append(pairs, "$"+strconv.Itoa(i+1), "'"+strings.ReplaceAll(arg, "'", "''")+"'")
		}
		sql = strings.NewReplacer(pairs...).Replace(sql)
	}
	c.front.SendQuery(&pgproto3.Query{String: sql})
	return c.front.Flush()
}

var (
	binaryFormat = []int16{1}
	execute      pgproto3.Execute
	syncMessage  pgproto3.Sync
)

// execute adds the execution of a prepared statement to what sync sends.
func (c *Conn) execute(name string, args int) {
	c.bind = pgproto3.Bind{PreparedStatement: name, ParameterFormatCodes: binaryFormat, Parameters: c.args[:args]}
	c.front.SendBind(&c.bind)
	c.front.SendExecute(&execute)
}

// sync ends the messages with a Sync, and sends all of them in one write.
func (c *Conn) sync() error {
	c.front.SendSync(&syncMessage)
	return c.front.Flush()
}

// sendArrays runs a statement over two arrays.
func sendArrays[N int16 | int64](c *Conn, name string, first []N, second []int64) error {
	c.scratch = appendArray(c.scratch[:0], first)
	split := len(c.scratch)
	c.scratch = appendArray(c.scratch, second)
	c.args = [2][]byte{c.scratch[:split], c.scratch[split:]}
	c.execute(name, 2)
	return c.sync()
}

const (
	fewKeys = 6 // measured: from 8 on an array costs the server less
	// How many keys a statement may have to fit one TCP segment of 1,460 bytes: exclusive ones of the bigint space are each an
	// int8, which takes 12, others also an int2, which takes 6, and the rest at most 110.
	PlainKeys, MixedKeys = 112, 75
)

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
