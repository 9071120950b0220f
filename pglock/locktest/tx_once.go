package locktest

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/txlock"
)

// work identifies what package once records.
type work struct{ scope, id string }

// record says that work was done.
type record struct {
	at                  time.Time
	fingerprint, result []byte
}

// Once implements [txlock.Records]. Call once.Tx or once.Result.
func (t *Tx) Once(ctx context.Context, p lockdb.OnceParams) (lockdb.OnceRow, error) {
	return t.once(ctx, p, false)
}

// once answers as the function pglock.once does: the lock of the work comes first, so that no other transaction records it meanwhile.
func (t *Tx) once(ctx context.Context, p lockdb.OnceParams, wait bool) (row lockdb.OnceRow, err error) {
	lock := pglock.NewKey("once:" + p.Scope + "/" + p.ID)
	key := driver.Key{KeyID: lock.ID(), Name: lock.Name(), Named: true}
	err = t.LockTx(ctx, txlock.Request{Keys: []driver.Key{key}, Wait: wait})
	if errors.Is(err, driver.ErrNotAcquired) {
		return lockdb.OnceRow{Outcome: "held"}, nil
	}
	if err != nil {
		return row, err
	}
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	if done, ok := t.recordedLocked(work{p.Scope, p.ID}); ok {
		row = lockdb.OnceRow{Outcome: "done", DoneAt: pgtype.Timestamptz{Time: done.at, Valid: true}, Result: done.result}
		if done.fingerprint != nil && p.Fingerprint != nil && !bytes.Equal(done.fingerprint, p.Fingerprint) {
			row.Outcome, row.Result = "mismatch", nil
		}
		return row, nil
	}
	if p.Record {
		t.recordLocked(work{p.Scope, p.ID}, record{time.Now(), p.Fingerprint, nil})
	}
	return lockdb.OnceRow{Outcome: "first"}, nil
}

// OnceRecord implements [txlock.Records].
func (t *Tx) OnceRecord(_ context.Context, p lockdb.OnceRecordParams) error {
	if err := t.usable(); err != nil {
		return err
	}
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.recordLocked(work{p.Scope, p.ID}, record{time.Now(), p.Fingerprint, p.Result})
	return nil
}

// onceQueued answers a statement in a batch, which is an error unless the transaction is the first.
func (t *Tx) onceQueued(ctx context.Context, q txlock.QueuedOnce) error {
	p, wait := q.Asked()
	row, err := t.once(ctx, p, wait)
	if err != nil || row.Outcome == "first" {
		return err
	}
	return &pgconn.PgError{Severity: "ERROR", Code: "PLK01", Message: "pglock_once_" + row.Outcome,
		Detail: row.DoneAt.Time.UTC().Format("done at 2006-01-02T15:04:05.999999Z")}
}

// recordedLocked returns the record that the transaction sees: a committed one, or its own.
func (t *Tx) recordedLocked(w work) (record, bool) {
	for tx := t; tx != nil; tx = tx.outer {
		if own, ok := tx.records[w]; ok {
			return own, true
		}
	}
	done, ok := t.server.records[w]
	return done, ok
}

// recordLocked keeps a record until the end of the transaction or savepoint.
func (t *Tx) recordLocked(w work, r record) {
	if t.records == nil {
		t.records = map[work]record{}
	}
	t.records[w] = r
}

// publishLocked passes on the records of a transaction that has committed, to the transaction around it or to all.
func (t *Tx) publishLocked() {
	for w, r := range t.records {
		switch {
		case t.outer != nil:
			t.outer.recordLocked(w, r)
		case t.server.records == nil:
			t.server.records = map[work]record{w: r}
		default:
			t.server.records[w] = r
		}
	}
}
