// Package redisserver starts temporary Redis servers and Sentinels for tests and benchmarks, from the programs on the
// machine. They listen only on 127.0.0.1, keep nothing on disk, and do not outlive the process.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pglock-toolkit/pglock/internal/supervise"
)

// Server is a Redis or a Sentinel that tests can restart, break and pause. All methods may be called concurrently.
type Server struct {
	supervisor *supervise.Supervisor
	args       []string // its configuration
	port       int
	program    string

	mu      sync.Mutex
	process *supervise.Process
}

// Find returns the path of redis-server; the error says what to install.
func Find() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", errors.New("no redis-server on the PATH: " +
			"install it (apt-get install redis-server, dnf install redis, brew install redis)")
	}
	return path, nil
}

// Start starts a Redis that keeps nothing on disk, with additional directives of redis.conf, such as "maxmemory 1mb".
func Start(directives ...string) (*Server, error) {
	program, err := Find()
	if err != nil {
		return nil, err
	}
	return StartProgram(program, directives...)
}

// StartProgram is Start with another program, such as valkey-server.
func StartProgram(program string, directives ...string) (*Server, error) {
	return start(program, nil, slices.Concat([]string{`save ""`, "appendonly no"}, directives))
}

// StartSentinel starts a Sentinel with directives of sentinel.conf.
func StartSentinel(directives ...string) (*Server, error) {
	program, err := Find()
	if err != nil {
		return nil, err
	}
	return start(program, []string{"--sentinel"}, directives)
}

func start(program string, flags, directives []string) (*Server, error) {
	g, err := supervise.New("pglock-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{supervisor: g, program: program}
	if err := s.startOnFreePort(flags, directives); err != nil {
		return nil, errors.Join(fmt.Errorf("start Redis: %w", err), g.Close())
	}
	return s, nil
}

func (s *Server) startOnFreePort(flags, directives []string) (err error) {
	for {
		if s.port, err = supervise.FreePort(); err != nil {
			return err
		}
		if s.port+clusterBus > maxPort {
			continue
		}
		lines := slices.Concat([]string{
			"bind 127.0.0.1", "port " + strconv.Itoa(s.port), "dir " + s.supervisor.Dir(),
		}, directives)
		file, err := s.supervisor.WriteFile("redis.conf", strings.Join(lines, "\n")+"\n")
		if err != nil {
			return err
		}
		s.args = append([]string{file}, flags...)
		if err = s.Start(); !errors.Is(err, errPortTaken) {
			return err
		}
	}
}

// A cluster node also listens on a port that is this much higher.
const clusterBus, maxPort = 10_000, 65_535

var errPortTaken = errors.New("the port is taken")

// patience is how long a server may take to answer on a machine that is busy.
const patience = 30 * time.Second

// Start restarts a killed server, empty, on the same port, and waits until it answers.
func (s *Server) Start() error {
	process, err := s.supervisor.Start(s.supervisor.Command(context.Background(), s.program, s.args...), s.supervisor.Path("log"))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = process
	s.mu.Unlock()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if process.Ended() {
			break
		}
		if _, err := s.Do("PING"); err == nil || strings.Contains(err.Error(), "NOAUTH") {
			return nil
		}
	}
	if strings.Contains(process.Said(), "Address already in use") {
		return errPortTaken
	}
	return fmt.Errorf("it does not answer; it said:\n%s", process.Said())
}

// Path returns the path of a file in the server's directory, where it keeps its data if it is told to.
func (s *Server) Path(name string) string { return s.supervisor.Path(name) }

// Addr returns the server's address.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the server's URL.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Port returns the server's port of 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Kill ends the server at once, with all its data.
func (s *Server) Kill() error {
	process := s.current()
	if err := process.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill Redis: %w", err)
	}
	<-process.Done()
	return nil
}

func (s *Server) signal(signal syscall.Signal) error {
	if err := s.current().Signal(signal); err != nil {
		return fmt.Errorf("send %v to Redis: %w", signal, err)
	}
	return nil
}

// Stop ends the server permanently, paused or not.
func (s *Server) Stop() error { return s.supervisor.Close() }

func (s *Server) current() *supervise.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Version returns the server's version, or "" if it does not answer.
func (s *Server) Version() string {
	info, err := s.Do("INFO", "server")
	if err != nil {
		return ""
	}
	_, version, _ := strings.Cut(info, "redis_version:")
	version, _, _ = strings.Cut(version, "\r")
	return version
}
