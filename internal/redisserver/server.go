// Package redisserver starts temporary Redis servers and Sentinels for tests and benchmarks, from the programs on the
// machine. They listen only on 127.0.0.1, keep nothing on disk, and do not outlive the process.
package redisserver

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/supervise"
)

// Server is a Redis or a Sentinel to which faults can happen.
type Server struct{ *supervise.Server }

// Start starts a Redis that keeps nothing on disk, with additional directives of redis.conf, such as "maxmemory 1mb".
func Start(directives ...string) (*Server, error) {
	return start(nil, slices.Concat([]string{`save ""`, "appendonly no"}, directives))
}

// StartSentinel starts a Sentinel with directives of sentinel.conf.
func StartSentinel(directives ...string) (*Server, error) {
	return start([]string{"--sentinel"}, directives)
}

func start(flags, directives []string) (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("no redis-server on the PATH: " +
			"install it (apt-get install redis-server, dnf install redis, brew install redis)")
	}
	supervisor, err := supervise.New("pglock-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{}
	s.Server = supervisor.NewServer(supervise.Program{
		Name: "Redis", Answers: s.answers, Taken: "Address already in use",
		Command: func(port int) (*exec.Cmd, error) {
			lines := slices.Concat([]string{"bind 127.0.0.1", "port " + strconv.Itoa(port), "dir " + s.Dir()}, directives)
			file, err := s.WriteFile("redis.conf", strings.Join(lines, "\n")+"\n")
			return s.Command(context.Background(), program, append([]string{file}, flags...)...), err
		},
	})
	if err := s.Up(context.Background()); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) answers(context.Context) error {
	_, err := s.Do("PING")
	if err != nil && strings.Contains(err.Error(), "NOAUTH") {
		return nil
	}
	return err
}

// Kill ends the server at once, with all its data. It can be brought up again, empty, on the same port.
func (s *Server) Kill() error { return s.Down(context.Background(), s.Signal, os.Kill) }

// Addr returns the server's address.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port())) }

// URL returns the server's URL.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

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
