package pgserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/supervise"
)

// PoolerOptions say what a PgBouncer stands in front of.
type PoolerOptions struct {
	// Server is how PgBouncer connects to the database. Its user is the administrator of PgBouncer.
	Server *pgx.ConnConfig
	// Users are other roles that may connect, with their passwords.
	Users map[string]string
	// Mode is PgBouncer's pool_mode: "transaction", "session".
	Mode string
	// Size is how many server sessions it makes for a role in a database.
	Size int
}

// Pooler is a PgBouncer to which faults can happen.
type Pooler struct {
	*supervise.Server
	options PoolerOptions
	program string
}

// StartPooler starts a PgBouncer and returns when it answers. The caller must call [Pooler.Stop].
func StartPooler(ctx context.Context, options PoolerOptions) (*Pooler, error) {
	program, err := FindPgBouncer()
	if err != nil {
		return nil, err
	}
	supervisor, err := supervise.New("pglock-pgbouncer-")
	if err != nil {
		return nil, err
	}
	p := &Pooler{options: options, program: program}
	p.Server = supervisor.NewServer(supervise.Program{
		Name: "PgBouncer", Command: p.command, Answers: p.answers, Taken: "nowhere to listen on",
	})
	if err := p.Up(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
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

// ConnString leads through the pooler to the database, as the user of [PoolerOptions].Server. It contains the password.
func (p *Pooler) ConnString() string {
	return (&url.URL{
		Scheme: "postgres", User: url.UserPassword(p.options.Server.User, p.options.Server.Password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port())), Path: "/" + p.options.Server.Database,
		RawQuery: "sslmode=prefer",
	}).String()
}

// Restart kills the pooler's process and starts another one at the same address.
func (p *Pooler) Restart(ctx context.Context) error {
	if err := p.Down(ctx, p.Signal, os.Kill); err != nil {
		return err
	}
	return p.Up(ctx)
}

// answers also checks the connection from PgBouncer to the server.
func (p *Pooler) answers(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.ConnString())
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func (p *Pooler) command(port int) (*exec.Cmd, error) {
	file, err := p.configure(port)
	if err != nil {
		return nil, err
	}
	return p.Command(context.Background(), p.program, file), nil
}

func (p *Pooler) configure(port int) (file string, err error) {
	server := p.options.Server
	users := fmt.Sprintf("%q %q\n", server.User, server.Password)
	for _, name := range slices.Sorted(maps.Keys(p.options.Users)) {
		users += fmt.Sprintf("%q %q\n", name, p.options.Users[name])
	}
	usersFile, err := p.WriteFile("users.txt", users)
	if err != nil {
		return "", err
	}
	return p.WriteFile("pgbouncer.ini", fmt.Sprintf(`
[databases]
%s = host=%s port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
pool_mode = %s
auth_type = plain
auth_file = %s
max_client_conn = 1000
default_pool_size = %d
server_login_retry = 1
stats_users = %s
`, server.Database, server.Host, server.Port, port, p.options.Mode, usersFile, p.options.Size, server.User))
}
