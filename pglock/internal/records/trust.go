package records

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Trust remembers which schemas pglock have been found to belong to roles whose code may be executed, see package trust.
// The zero Trust is ready to use.
//
// To look at everything that a schema reaches costs more than the records do, so that is done at the first use and then
// once a minute. Each use asks whether the name pglock still leads to the schema that was looked at, and keeps it from being
// dropped: [Trust.Queue]. So in that minute another role's code can get in only if a trusted role permits it, with
// the right to create in the schema or to attach triggers to its tables.
//
// A connection is identified by the role that has logged in, and what that role trusts holds for every role that it
// becomes. A result after SET ROLE holds for that role only, and is not remembered: each use then looks again.
type Trust struct {
	// Option is the function that names further owners, for errors; "" if it is the Locker's.
	Option string

	mu    sync.Mutex
	found map[string]seen // by the database that a connection leads to, and its role
}

type seen struct {
	schema uint32 // its OID
	at     time.Time
}

const (
	trustFor = time.Minute
	maxFound = 1000
)

// Queue puts a statement into a batch, in front of those that execute something of the schema. It has one result, which is an
// error unless owners and the rules of package trust let the schema be used; after an error nothing behind it is executed.
// The batch may be sent inside a transaction.
func (t *Trust) Queue(b *pgx.Batch, owners []string) *Look {
	look := &Look{trust: t, owners: owners}
	look.Query = b.Queue(trust.Same, look)
	return look
}

// Look is one look at the owner of the schema.
type Look struct {
	trust  *Trust
	owners []string
	Query  *pgx.QueuedQuery // has no callback
	err    error
}

// RewriteQuery implements [pgx.QueryRewriter], which is called while the batch is being made ready and the connection is
// free.
func (l *Look) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, _ []any) (string, []any, error) {
	schema, err := l.trust.look(ctx, conn, who(conn)+"\x00"+strings.Join(l.owners, "\x00"), l.owners)
	l.err = err
	return sql, []any{schema}, err
}

// Explain explains an error that the batch returned before the results of other statements.
func (l *Look) Explain(err error) error {
	if l.err != nil {
		return l.err // without the text that pgx adds
	}
	err = trust.Explain(err)
	if sqlstate.Of(err) == sqlstate.InternalError { // the sequence is gone: see trust.Same
		err = fmt.Errorf("%w: %w", trust.ErrReplaced, err)
	}
	if errors.Is(err, driver.ErrUntrusted) || errors.Is(err, driver.ErrSchemaMissing) {
		l.trust.Forget()
	}
	return err
}

// Forget makes the next use check the owners again.
func (t *Trust) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.found)
}

// look returns the OID of the schema, or 0 if there is none. The error matches [driver.ErrUntrusted] if something in it
// belongs to a role that is not trusted.
func (t *Trust) look(ctx context.Context, conn *pgx.Conn, where string, owners []string) (schema uint32, err error) {
	if schema, ok := t.remembers(where); ok {
		return schema, nil
	}
	looked, err := trust.Look(ctx, conn, trust.Owners{Named: owners})
	switch {
	case errors.Is(err, trust.ErrReplaced):
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("look up the owner of schema pglock: %w", err)
	case len(looked.Findings) > 0:
		return 0, t.untrusted(looked.Findings[0])
	case looked.Schema == 0 || !looked.AsLogin:
		return looked.Schema, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.found == nil || len(t.found) >= maxFound {
		t.found = map[string]seen{} // forgetting only costs another check
	}
	t.found[where] = seen{looked.Schema, time.Now()}
	return looked.Schema, nil
}

func (t *Trust) untrusted(found trust.Finding) error {
	err := &driver.UntrustedError{Object: found.Object, Owner: found.Owner}
	if t.Option == "" {
		return err
	}
	return fmt.Errorf("%w; here that option is %s", err, t.Option)
}

func (t *Trust) remembers(where string) (schema uint32, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen, ok := t.found[where]
	return seen.schema, ok && time.Since(seen.at) < trustFor
}

// who returns which database a connection leads to, and as which role. The connection keeps the result, since Config
// copies the whole configuration.
func who(conn *pgx.Conn) string {
	remembered := conn.PgConn().CustomData()
	if who, ok := remembered[whoData].(string); ok {
		return who
	}
	config := conn.Config()
	who := fmt.Sprint(config.Host, "\x01", config.Port, "\x01", config.Database, "\x01", config.User)
	remembered[whoData] = who
	return who
}

const whoData = "pglock.who"
