package wiretest

import (
	"encoding/binary"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// Statement is a statement that a session has sent.
type Statement struct {
	SQL        string // of a call
	Keys       []int64
	Operations []wire.Operation // what it does with each of the keys
	Asks       bool             // it asks which of the keys are held
	Rows       bool             // the answer has a row for each key, and not one array
}

// Releases reports whether it releases key i. Otherwise it tries to lock it.
func (st *Statement) Releases(i int) bool { return st.Operations[i]&wire.Release != 0 }

func (st *Statement) add(key int64, op wire.Operation) {
	st.Keys, st.Operations = append(st.Keys, key), append(st.Operations, op)
}

// Bind adds to st what a prepared statement does.
func (st *Statement) Bind(m *pgproto3.Bind) {
	kind := strings.TrimPrefix(m.PreparedStatement, "pglock_")
	switch kind = kind[:strings.LastIndexByte(kind, '_')]; kind {
	case "try", "unlock":
		op := wire.Operation(0)
		if kind == "unlock" {
			op = wire.Release
		}
		st.add(int64(binary.BigEndian.Uint64(m.Parameters[0])), op)
		st.Rows = true
	case "plain_batch":
		st.addPlain(array(m.Parameters[0]), array(m.Parameters[1]))
	case "batch", "reconcile":
		st.addAll(array(m.Parameters[0]), array(m.Parameters[1]))
		st.Asks = kind == "reconcile"
	}
}

func (st *Statement) addPlain(releases, tries []int64) {
	for _, key := range releases {
		st.add(key, wire.Release)
	}
	for _, key := range tries {
		st.add(key, 0)
	}
}

func (st *Statement) addAll(operations, keys []int64) {
	if len(operations) == 0 { // of a question about exclusive keys of the bigint space
		operations = make([]int64, len(keys))
	}
	for i, key := range keys {
		st.add(key, wire.Operation(operations[i]))
	}
}

// array reads what array_recv does.
func array(b []byte) (values []int64) {
	for b = b[20:]; len(b) > 0; {
		size := binary.BigEndian.Uint32(b)
		if b = b[4:]; size == 2 {
			values = append(values, int64(int16(binary.BigEndian.Uint16(b))))
		} else {
			values = append(values, int64(binary.BigEndian.Uint64(b)))
		}
		b = b[size:]
	}
	return values
}
