package monitor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/pglock"
)

const (
	// maxCopied is the largest size of a registry that is copied. It has room for more than 100,000 names.
	maxCopied = 16 << 20
	// maxRow is the largest message of a copy, and maxMessage that of pgx by default.
	maxRow, maxMessage = 1 << 20, 1<<30 - 2
)

// errNotCopied is why a registry was not copied.
var errNotCopied = errors.New("not read")

// copyNames reads the registry of a role that is not trusted. It keeps a name only if its hash is the key, so a false
// name has no effect.
func (r reader) copyNames(ctx context.Context, t *tables, numbers []int64, o options) (registered, error) {
	if names, fresh := o.memory.copy(); fresh {
		return names, nil
	}
	switch row := t.rows[0]; {
	case !row.Plain:
		return nil, fmt.Errorf("%w, since it is not a plain table", errNotCopied)
	case r.inTransaction:
		return nil, fmt.Errorf("%w, since this is a transaction of the caller's", errNotCopied)
	}
	if o.memory != nil {
		numbers = nil // the next snapshots need other names
	}
	names, err := r.copyFrom(ctx, t.rows[0].NamesOid.Uint32, newNameFilter(numbers))
	if err == nil {
		o.memory.keepCopy(names)
	}
	return names, err
}

func (r reader) copyFrom(ctx context.Context, oid uint32, s *nameFilter) (registered, error) {
	var conn *pgx.Conn
	if pool, ok := r.db.(*pgxpool.Pool); ok {
		pooled, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		defer pooled.Release()
		conn = pooled.Conn()
	} else if conn = connection(r.db); conn == nil {
		return nil, fmt.Errorf("%w, since the connection is behind a wrapper", errNotCopied)
	}
	// Rows added after the look at the size are not copied: the snapshot is older.
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, monitordb.BoundCopy, pgx.QueryExecModeExec, statementTimeout, lockTimeout); err != nil {
			return err
		}
		// A table that is too large, or has values that PostgreSQL keeps outside of its pages, is not copied: these are longer
		// than any name in a registry may be. If the table is replaced afterwards, copyRows and nameFilter bound the copy.
		var size, outside int64
		err := tx.QueryRow(ctx, monitordb.SizeOfTable, pgx.QueryExecModeExec, oid).Scan(&size, &outside)
		if err != nil {
			return err
		}
		if outside > 0 {
			return fmt.Errorf("%w, since it has, or had, longer values than names", errNotCopied)
		}
		if size > maxCopied {
			return fmt.Errorf("%w, since it has %d bytes, and more than %d are not copied", errNotCopied, size, maxCopied)
		}
		return copyRows(ctx, conn, s)
	})
	if err == nil && s.full {
		err = fmt.Errorf("%w, since more than %d bytes came", errNotCopied, maxCopied)
	}
	return s.names.sorted(), err
}

// copyRows ends the connection if a row is too long, since the client would have to read it whole. The table may be
// another one than that whose size is known: its owner can rename it, or its schema, at any moment.
func copyRows(ctx context.Context, conn *pgx.Conn, s *nameFilter) error {
	limit := cmp.Or(conn.Config().MaxProtocolMessageBodyLen, maxMessage)
	conn.PgConn().Frontend().SetMaxBodyLen(min(limit, maxRow))
	_, err := conn.PgConn().CopyTo(ctx, s, monitordb.CopyNames)
	conn.PgConn().Frontend().SetMaxBodyLen(limit)
	if long, ok := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err); ok {
		return fmt.Errorf("%w, since a row has %d bytes, and longer ones than %d are not read", errNotCopied, long.ActualBodyLen, maxRow)
	}
	return err
}

// nameFilter reads the text form of COPY (https://www.postgresql.org/docs/current/sql-copy.html) and keeps the names
// that are wanted and whose hash is the key. Beyond maxCopied it discards the rest, since stopping would end the
// connection. The time of the copy is bounded too.
type nameFilter struct {
	wanted map[int64]bool // nil: all
	names  registered
	line   []byte
	seen   int
	full   bool
}

func newNameFilter(numbers []int64) *nameFilter {
	s := &nameFilter{names: registered{}}
	if numbers != nil {
		s.wanted = make(map[int64]bool, len(numbers))
		for _, n := range numbers {
			s.wanted[n] = true
		}
	}
	return s
}

func (s *nameFilter) Write(p []byte) (int, error) {
	if s.seen += len(p); s.seen > maxCopied {
		s.full, s.line = true, nil
		return len(p), nil
	}
	s.line = append(s.line, p...)
	for {
		line, rest, whole := bytes.Cut(s.line, []byte("\n"))
		if !whole {
			s.line = slices.Clone(s.line)
			return len(p), nil
		}
		s.addLine(line)
		s.line = rest
	}
}

func (s *nameFilter) addLine(line []byte) {
	number, text, _ := bytes.Cut(line, []byte("\t"))
	key, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || (s.wanted != nil && !s.wanted[key] && !bytes.HasPrefix(text, []byte(lockkeys.SemaphorePrefix))) {
		return
	}
	if name := unescape(text); pglock.NewKey(name).Int64() == key && !slices.Contains(s.names[key], name) {
		s.names[key] = append(s.names[key], name)
	}
}

// unescape undoes COPY's escaping of control characters and backslashes.
func unescape(text []byte) string {
	if !bytes.ContainsRune(text, '\\') {
		return string(text)
	}
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\\' && i+1 < len(text) {
			i++
			if c = text[i]; strings.IndexByte("bfnrtv", c) >= 0 {
				c = "\b\f\n\r\t\v"[strings.IndexByte("bfnrtv", c)]
			}
		}
		plain = append(plain, c)
	}
	return string(plain)
}
