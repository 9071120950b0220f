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
	"strconv"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/supervise"
)

// Superuser is the role that [Server.ConnString] connects as.
const Superuser = "postgres"

// startTimeout bounds a start and a shutdown, in addition to the caller's context. Recovery may take long on a busy
// machine.
const startTimeout = 2 * time.Minute

// Options say how to start a server. The zero value is valid.
type Options struct {
	// Binaries are the programs to run; if zero, those of [Find].
	Binaries Binaries
	// Settings are lines for postgresql.conf, unquoted: {"max_connections": "300"}. They cannot change the
	// addresses that the server listens on.
	Settings map[string]string
	// Template is a directory that [MakeTemplate] made with the same binaries. Servers that are copies of it start sooner,
	// but have its password and its system identifier. If empty, the server is initialized by itself.
	Template string
}

// Server is a temporary PostgreSQL server. Its methods may be called concurrently; those that start and end the
// server wait for each other.
type Server struct {
	binaries   Binaries
	supervisor *supervise.Supervisor
	password   string

	starting sync.Mutex // held while the server is brought up or down

	mu         sync.Mutex // guards the fields below
	port       int
	postmaster *supervise.Process // nil, or ended, while the server is down
}

// Start makes a new server and returns when it accepts connections. ctx bounds only the start, which fails after two
// minutes in any case. The caller must call [Server.Stop].
//
// The error matches [ErrNoBinaries] if there are no programs, and otherwise ends with the server's last output.
func Start(ctx context.Context, options Options) (*Server, error) {
	s, err := newServer(options.Binaries, newPassword())
	if err != nil {
		return nil, fmt.Errorf("start a PostgreSQL server: %w", err)
	}
	if err := s.create(ctx, options); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", s.binaries, err), s.Stop())
	}
	return s, nil
}

func newPassword() string { return rand.Text() }

func newServer(binaries Binaries, password string) (*Server, error) {
	if binaries.Dir == "" {
		found, err := Find()
		if err != nil {
			return nil, err
		}
		binaries = found
	}
	g, err := supervise.New("pglock-pg-")
	if err != nil {
		return nil, err
	}
	return &Server{binaries: binaries, supervisor: g, password: password}, nil
}

func (s *Server) create(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.initialize(ctx, o); err != nil {
		return err
	}
	return s.startOnFreePort(ctx)
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

// Port returns the TCP port on 127.0.0.1. It stays the same for the life of the server.
func (s *Server) Port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.port
}

// SocketDir returns the directory of the Unix socket: what libpq and pgx take as a host.
func (s *Server) SocketDir() string { return s.supervisor.Dir() }

// LogFile returns the path of the server's log.
func (s *Server) LogFile() string { return s.supervisor.Path("log") }

// PID returns the process ID of the postmaster, or 0 while the server is down.
func (s *Server) PID() int {
	if postmaster := s.running(); postmaster != nil {
		return postmaster.PID()
	}
	return 0
}

// Stop ends the server at once, as with [Immediate], and removes its files. The Server cannot be used afterwards. A
// second Stop does nothing.
func (s *Server) Stop() error {
	if err := s.supervisor.Close(); err != nil {
		return fmt.Errorf("stop %s: %w", s.binaries, err)
	}
	return nil
}

// running returns nil while the server is down.
func (s *Server) running() *supervise.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postmaster == nil || s.postmaster.Ended() {
		return nil
	}
	return s.postmaster
}

func (s *Server) setPostmaster(postmaster *supervise.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.postmaster = postmaster
}

func (s *Server) setPort(port int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.port = port
}
