package records

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Trust remembers which schemas pglock have been found to belong to roles whose code may be executed, see package trust.
// The zero Trust is ready to use. To look each time would cost more than what is looked at, so it is done for a server,
// database and role at first and then each minute: a role that is not trusted can offer its own schema in that time only
// after one that is trusted has dropped the schema.
type Trust struct {
	mu    sync.Mutex
	found map[string]time.Time
}

const trustFor = time.Minute

// Check returns an error that matches [driver.ErrUntrusted] if something in the schema that db leads to belongs to a role
// that is not trusted. who says to what db leads; where it is empty nothing is remembered.
func (t *Trust) Check(ctx context.Context, db trust.Querier, who string, owners []string) error {
	who += "\x00" + strings.Join(owners, "\x00")
	if t.remembers(who) {
		return nil
	}
	findings, err := trust.Find(ctx, db, owners)
	if err != nil {
		return fmt.Errorf("look who owns schema pglock: %w", err)
	}
	if len(findings) > 0 {
		return &driver.UntrustedError{Object: findings[0].Object, Owner: findings[0].Owner}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.found == nil {
		t.found = map[string]time.Time{}
	}
	if len(t.found) >= maxFound {
		clear(t.found) // forgetting only costs another look
	}
	t.found[who] = time.Now()
	return nil
}

const maxFound = 1000

func (t *Trust) remembers(who string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.found[who]
	return ok && time.Since(at) < trustFor && !strings.HasPrefix(who, "\x00")
}

// Who says to what a connection leads; nothing for what is no connection of pgx's.
func Who(conn *pgx.Conn) string {
	if conn == nil || conn.PgConn() == nil {
		return ""
	}
	config := conn.Config()
	return fmt.Sprint(config.Host, "\x01", config.Port, "\x01", config.Database, "\x01", config.User)
}
