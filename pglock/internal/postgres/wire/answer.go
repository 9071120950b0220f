package wire

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
)

// Answer is what the server said to one statement.
type Answer struct {
	row  []byte // the first columns of the rows, one after another
	some bool   // there was a row, and no column was NULL
	null bool
	err  *pgconn.PgError
}

// Reset empties the answer and keeps its memory.
func (a *Answer) Reset() { *a = Answer{row: a.row[:0]} }

// Error returns the error with which the statement ended, if any. The session stays usable.
func (a *Answer) Error() error {
	if a.err != nil {
		return a.err
	}
	return nil
}

// Value returns the first column; some is false if there was no row, or the column was NULL.
func (a *Answer) Value() (value string, some bool) { return string(a.row), a.some }

// add adds a message to the answer, and reports whether the answer is complete.
func (a *Answer) add(message pgproto3.BackendMessage) (complete bool) {
	switch m := message.(type) {
	case *pgproto3.DataRow:
		if len(m.Values) > 0 {
			a.row = append(a.row, m.Values[0]...)
			a.null = a.null || m.Values[0] == nil
			a.some = !a.null
		}
	case *pgproto3.ErrorResponse:
		if a.err == nil {
			a.err = pgconn.ErrorResponseToPgError(m)
		}
	case *pgproto3.ReadyForQuery:
		return true
	}
	return false
}

// Bools reads the answer to the statement of a batch of n keys, or to the question about it. An error says that the
// session cannot be trusted any more.
func (a *Answer) Bools(into []bool, n int) ([]bool, error) {
	if !a.some {
		return nil, Refusal(pooled)
	}
	into = into[:0]
	for _, c := range a.row {
		switch c {
		case 't':
			into = append(into, true)
		case 'f':
			into = append(into, false)
		case '{', '}', ',':
		default:
			return nil, fmt.Errorf("unexpected answer %s from the server", shorttext.Quote(string(a.row)))
		}
	}
	if len(into) != n {
		return nil, fmt.Errorf("the server answered for %d of %d keys", len(into), n)
	}
	return into, nil
}
