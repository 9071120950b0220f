package pgserver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/supervise"
)

// pollInterval is the pause between two checks of something that the server does not announce.
const pollInterval = 20 * time.Millisecond

var errPortTaken = errors.New("the port is taken")

// startOnFreePort starts the server for the first time.
func (s *Server) startOnFreePort(ctx context.Context) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	for {
		port, err := supervise.FreePort()
		if err != nil {
			return err
		}
		s.setPort(port)
		if err = s.startInstance(ctx); !errors.Is(err, errPortTaken) {
			return err
		}
	}
}

// startInstance starts the postmaster and waits until it accepts connections. Settings that must not change between two
// starts are on its command line, which overrides every file.
func (s *Server) startInstance(ctx context.Context) error {
	cmd := s.supervisor.Command(context.WithoutCancel(ctx), s.binaries.program("postgres"), "-D", s.dataDir(),
		"-p", strconv.Itoa(s.Port()), "-h", "127.0.0.1", "-k", s.SocketDir())
	postmaster, err := s.supervisor.Start(cmd, s.LogFile())
	if err != nil {
		return err
	}
	s.setPostmaster(postmaster)
	return s.awaitConnection(ctx, postmaster)
}

// awaitConnection returns when the server answers on its Unix socket, where no other server can. It gives up when the
// postmaster ends.
func (s *Server) awaitConnection(ctx context.Context, postmaster *supervise.Process) error {
	for {
		lastErr := s.withConn(ctx, func(*pgx.Conn) error { return nil })
		if lastErr == nil {
			return nil
		}
		select {
		case <-postmaster.Done():
			return s.whyEnded(postmaster)
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting for it to accept connections: %w\n%s",
				context.Cause(ctx), lastErr, lastLines(postmaster.Said()))
		case <-time.After(pollInterval):
		}
	}
}

// whyEnded distinguishes a port in use, by the message of PostmasterMain in src/backend/postmaster/postmaster.c, from
// other errors.
func (s *Server) whyEnded(postmaster *supervise.Process) error {
	if strings.Contains(postmaster.Said(), "could not create any TCP/IP sockets") {
		return fmt.Errorf("%w: %d", errPortTaken, s.Port())
	}
	return fmt.Errorf("the server ended: %w\n%s", postmaster.Err(), lastLines(postmaster.Said()))
}

// withConn runs do on a new connection over the Unix socket.
func (s *Server) withConn(ctx context.Context, do func(*pgx.Conn) error) (err error) {
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
	return do(conn)
}
