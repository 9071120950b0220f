package testenv

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/supervise"
)

// Pooling is PgBouncer's pool_mode: when it takes a server connection away from a client.
type Pooling string

// The modes that matter for locks.
const (
	TransactionPooling Pooling = "transaction"
	SessionPooling     Pooling = "session"
)

// PgBouncer starts a real PgBouncer in front of db and returns a connection string that goes through it. It knows the
// database's owner and the roles that [DB.Role] has made so far, and stops when the test ends.
func PgBouncer(t testing.TB, db *DB, mode Pooling) (connString string) {
	t.Helper()
	program, err := FindPgBouncer()
	if err != nil {
		t.Fatal(err)
	}
	g, err := supervise.New("pglock-pgbouncer-")
	if err != nil {
		t.Fatal(err)
	}
	server := db.Config(t).ConnConfig
	bouncer := &pgBouncer{program: program, supervisor: g, server: server, roles: db.knownRoles(), mode: mode}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("stop PgBouncer: %v", err)
		}
	})
	if err := bouncer.startOnFreePort(); err != nil {
		t.Fatalf("start PgBouncer: %v", err)
	}
	return bouncer.connString()
}

func (db *DB) knownRoles() []role {
	db.mu.Lock()
	defer db.mu.Unlock()
	return append([]role(nil), db.roles...)
}

// FindPgBouncer returns the path of the program. It also looks in Debian's directory for it, which may not be on the
// PATH; the error says what to install.
func FindPgBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no pgbouncer on the PATH or in /usr/sbin: " +
		"install it (apt-get install pgbouncer, dnf install pgbouncer, brew install pgbouncer)")
}

type pgBouncer struct {
	program    string
	supervisor *supervise.Supervisor
	server     *pgx.ConnConfig
	roles      []role
	mode       Pooling

	port int
}

var errPortTaken = errors.New("the port is taken")

func (b *pgBouncer) startOnFreePort() (err error) {
	for {
		if b.port, err = supervise.FreePort(); err != nil {
			return err
		}
		if err = b.start(); !errors.Is(err, errPortTaken) {
			return err
		}
	}
}

func (b *pgBouncer) start() error {
	iniFile, err := b.configure()
	if err != nil {
		return err
	}
	process, err := b.supervisor.Start(b.supervisor.Command(context.Background(), b.program, iniFile), b.supervisor.Path("log"))
	if err != nil {
		return err
	}
	if err := b.awaitConnection(process); err != nil {
		return fmt.Errorf("%w; it said:\n%s", err, process.Said())
	}
	return nil
}

// awaitConnection also checks the connection from PgBouncer to the server.
func (b *pgBouncer) awaitConnection(process *supervise.Process) error {
	var lastErr error
	poll(patience, func() bool {
		lastErr = connected(b.connString(), func(context.Context, *pgx.Conn) error { return nil })
		return lastErr == nil || process.Ended()
	})
	if lastErr == nil || !process.Ended() {
		return lastErr
	}
	if strings.Contains(process.Said(), "nowhere to listen on") {
		return errPortTaken
	}
	return process.Err()
}

func (b *pgBouncer) configure() (iniFile string, err error) {
	usersFile, err := b.supervisor.WriteFile("users.txt", b.users())
	if err != nil {
		return "", err
	}
	return b.supervisor.WriteFile("pgbouncer.ini", fmt.Sprintf(`
[databases]
%s = host=%s port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
pool_mode = %s
auth_type = scram-sha-256
auth_file = %s
max_client_conn = 1000
default_pool_size = 20
`, b.server.Database, b.server.Host, b.server.Port, b.port, b.mode, usersFile))
}

// users contains plain passwords: PgBouncer needs them to log in to the server with SCRAM.
func (b *pgBouncer) users() string {
	lines := fmt.Sprintf("%q %q\n", b.server.User, b.server.Password)
	for _, role := range b.roles {
		lines += fmt.Sprintf("%q %q\n", role.name, role.password)
	}
	return lines
}

func (b *pgBouncer) connString() string {
	return connString("127.0.0.1", uint16(b.port), b.server.Database, role{b.server.User, b.server.Password})
}
