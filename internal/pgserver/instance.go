package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// pollInterval is the pause between two looks at something that the server does not announce.
const pollInterval = 20 * time.Millisecond

// instance is one run of the postmaster.
type instance struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the postmaster has ended
	err  error         // how it ended; read it after done
}

func (i *instance) ended() bool {
	select {
	case <-i.done:
		return true
	default:
		return false
	}
}

var errPortTaken = errors.New("the port is taken")

// startOnFreePort starts the server for the first time.
func (s *Server) startOnFreePort(ctx context.Context) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	for {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.setPort(port)
		if err = s.startInstance(ctx); !errors.Is(err, errPortTaken) {
			return err
		}
	}
}

// freePort finds a port that nobody listens on now. It lies below those that Linux and macOS give to outgoing
// connections (net.ipv4.ip_local_port_range, net.inet.ip.portrange.first), or one of these could take it while the
// server restarts.
func freePort() (int, error) {
	const lowest, highest, tries = 10_000, 32_000, 100
	for range tries {
		port := lowest + rand.IntN(highest-lowest)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("none of %d ports of 127.0.0.1 between %d and %d is free", tries, lowest, highest)
}

// startInstance starts the postmaster and waits until it accepts connections. What must not change between two starts
// is on its command line, which overrides every file.
func (s *Server) startInstance(ctx context.Context) error {
	log, err := os.OpenFile(s.LogFile(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	begin, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	cmd := s.guard.Command(context.WithoutCancel(ctx), s.binaries.program("postgres"), "-D", s.dataDir(),
		"-p", strconv.Itoa(s.Port()), "-h", "127.0.0.1", "-k", s.SocketDir())
	cmd.Stdout, cmd.Stderr = log, log
	err = cmd.Start()
	if err := errors.Join(err, log.Close()); err != nil {
		return err
	}
	i := &instance{cmd: cmd, done: make(chan struct{})}
	go func() {
		i.err = cmd.Wait()
		close(i.done)
	}()
	s.setInstance(i)
	return s.awaitConnection(ctx, i, begin)
}

// awaitConnection returns when the server answers on its Unix socket, where nobody else can. It gives up the moment
// that the postmaster ends.
func (s *Server) awaitConnection(ctx context.Context, i *instance, logBegin int64) error {
	for {
		lastErr := s.withConn(ctx, func(*pgx.Conn) error { return nil })
		if lastErr == nil {
			return nil
		}
		select {
		case <-i.done:
			return s.whyEnded(i, logBegin)
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting for it to accept connections: %w\n%s",
				context.Cause(ctx), lastErr, lastLines(s.logSince(logBegin)))
		case <-time.After(pollInterval):
		}
	}
}

// whyEnded tells a taken port, which the message of PostmasterMain in src/backend/postmaster/postmaster.c shows, from
// everything else.
func (s *Server) whyEnded(i *instance, logBegin int64) error {
	log := s.logSince(logBegin)
	if strings.Contains(log, "could not create any TCP/IP sockets") {
		return fmt.Errorf("%w: %d", errPortTaken, s.Port())
	}
	return fmt.Errorf("the server ended: %w\n%s", i.err, lastLines(log))
}

func (s *Server) logSince(begin int64) string {
	log, err := os.ReadFile(s.LogFile())
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	return string(log[min(begin, int64(len(log))):])
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
