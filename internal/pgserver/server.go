// Package pgserver starts temporary PostgreSQL servers from the programs on this machine, for tests and for pglock
// demo. A server keeps its files in its own directory, listens on loopback and on a Unix socket there, asks for a
// password, and ends with this process, however that ends.
//
// It is not for data: nothing is ever flushed to disk.
package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/supervise"
)

// Superuser is the role that [Server.ConnString] connects as.
const Superuser = "postgres"

// Options say how to start a server. The zero value is valid.
type Options struct {
	// Settings are lines for postgresql.conf, unquoted: {"max_connections": "300"}. They cannot change the
	// addresses that the server listens on.
	Settings map[string]string
	// Template is the directory of what [MakeTemplate] made with the same binaries. Servers that are copies of it start sooner,
	// but have its password and its system identifier. If empty, the server is initialized by itself.
	Template string
}

// Server is a temporary PostgreSQL server. Its methods may be called concurrently; those that start and end the
// server wait for each other.
type Server struct {
	*supervise.Server
	binaries  Binaries
	password  string
	following bool // the start waits until it streams from its primary
}

// Start makes a new server and returns when it accepts connections. ctx bounds only the start, which fails after two
// minutes in any case. The caller must call [Server.Stop].
//
// The error matches [ErrNoBinaries] if there are no programs, and otherwise ends with the server's last output.
func Start(ctx context.Context, options Options) (*Server, error) {
	s, err := newServer(newPassword())
	if err != nil {
		return nil, fmt.Errorf("start a PostgreSQL server: %w", err)
	}
	if err = s.initialize(ctx, options); err == nil {
		err = s.Up(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func newPassword() string { return rand.Text() }

func newServer(password string) (*Server, error) {
	binaries, err := Find()
	if err != nil {
		return nil, err
	}
	supervisor, err := supervise.New("pglock-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{binaries: binaries, password: password}
	s.Server = supervisor.NewServer(supervise.Program{
		Name: binaries.String(), Command: s.postmaster, Answers: s.answers,
		Taken: "could not create any TCP/IP sockets", // of PostmasterMain in src/backend/postmaster/postmaster.c
	})
	return s, nil
}

// postmaster returns the command. Settings that must not change between two starts are on the command line, which overrides
// every file.
func (s *Server) postmaster(port int) (*exec.Cmd, error) {
	return s.Command(context.Background(), s.binaries.program("postgres"), "-D", s.dataDir(),
		"-p", strconv.Itoa(port), "-h", "127.0.0.1", "-k", s.Dir()), nil
}

// answers asks over the Unix socket, where no other server can answer.
func (s *Server) answers(ctx context.Context) (err error) {
	config, err := pgx.ParseConfig(s.ConnString(Superuser))
	if err != nil {
		return err
	}
	config.Host = s.SocketDir()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if !s.following {
		return nil
	}
	streaming, err := monitordb.New(conn).IsStreaming(ctx)
	if err == nil && !streaming {
		err = errors.New("it does not stream from its primary")
	}
	return err
}

// Binaries returns the programs that the server runs.
func (s *Server) Binaries() Binaries { return s.binaries }

// ConnString returns a URL that connects to database as the superuser over TCP. It contains the password.
func (s *Server) ConnString(database string) string {
	return (&url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(Superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port())),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}).String()
}

// SocketDir returns the directory of the Unix socket: what libpq and pgx take as a host.
func (s *Server) SocketDir() string { return s.Dir() }
