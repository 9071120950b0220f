package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/guard"
)

// RedisVariable is the environment variable with the URL of a Redis for the tests.
const RedisVariable = "PGLOCK_TEST_REDIS_URL"

// RedisURL returns the URL of a Redis that all tests of a binary share, so that each has to use keys of its own.
func RedisURL(t testing.TB) string {
	t.Helper()
	url, err := sharedRedis.url()
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// sharedRedis is the server that all tests of a binary share.
var sharedRedis sharedRedisServer

type sharedRedisServer struct {
	once   sync.Once
	server *RedisServer
	err    error
}

func (s *sharedRedisServer) url() (string, error) {
	if external := os.Getenv(RedisVariable); external != "" {
		return external, nil
	}
	s.once.Do(func() { s.server, s.err = startRedis(nil) })
	if s.err != nil {
		return "", fmt.Errorf("%w\n(or set %s to the URL of a server)", s.err, RedisVariable)
	}
	return s.server.URL(), nil
}

func (s *sharedRedisServer) stop() error {
	if s.server == nil {
		return nil
	}
	return s.server.guard.Close()
}

// RedisServer is a Redis of a test's own, to restart, break and pause. It keeps nothing on disk.
type RedisServer struct {
	guard *guard.Guard
	file  string // its configuration
	port  int

	mu      sync.Mutex
	process *guard.Process
}

// NewRedis starts a Redis of the test's own with more directives of redis.conf, such as "maxmemory 1mb", than the usual
// ones or none. It is stopped when the test ends.
func NewRedis(t testing.TB, directives ...string) *RedisServer {
	t.Helper()
	server, err := startRedis(directives)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.guard.Close(); err != nil {
			t.Errorf("stop Redis: %v", err)
		}
	})
	return server
}

// NewRedisCluster starts a Redis Cluster of masters that share the slots in equal parts.
func NewRedisCluster(t testing.TB, masters int) []*RedisServer {
	t.Helper()
	servers := make([]*RedisServer, masters)
	for i := range servers {
		servers[i] = NewRedis(t, "cluster-enabled yes", "cluster-node-timeout 2000", "cluster-require-full-coverage yes")
	}
	const slots = 16384
	for i, server := range servers {
		server.Must(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/masters), strconv.Itoa((i+1)*slots/masters-1))
		server.Must(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		server.Must(t, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(servers[0].port))
	}
	WaitUntil(t, "the cluster is ready", func() bool {
		return !slices.ContainsFunc(servers, func(s *RedisServer) bool {
			info := s.Must(t, "CLUSTER", "INFO")
			return !strings.Contains(info, "cluster_state:ok") ||
				!strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", masters))
		})
	})
	return servers
}

// FindRedis returns the path of redis-server; the error says what to install.
func FindRedis() (string, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", errors.New("no redis-server on the PATH: " +
			"install it (apt-get install redis-server, dnf install redis, brew install redis)")
	}
	return path, nil
}

func startRedis(directives []string) (*RedisServer, error) {
	program, err := FindRedis()
	if err != nil {
		return nil, err
	}
	g, err := guard.New("pglock-redis-")
	if err != nil {
		return nil, err
	}
	s := &RedisServer{guard: g}
	if err := s.startOnFreePort(program, directives); err != nil {
		return nil, errors.Join(fmt.Errorf("start Redis: %w", err), g.Close())
	}
	return s, nil
}

func (s *RedisServer) startOnFreePort(program string, directives []string) (err error) {
	for {
		if s.port, err = guard.FreePort(); err != nil {
			return err
		}
		if s.port+clusterBus > maxPort {
			continue
		}
		lines := slices.Concat([]string{
			"bind 127.0.0.1", "port " + strconv.Itoa(s.port), "dir " + s.guard.Dir(), `save ""`, "appendonly no",
		}, directives)
		if s.file, err = s.guard.WriteFile("redis.conf", strings.Join(lines, "\n")+"\n"); err != nil {
			return err
		}
		if err = s.start(program); !errors.Is(err, errPortTaken) {
			return err
		}
	}
}

// A cluster node also listens on a port that is so much higher.
const clusterBus, maxPort = 10_000, 65_535

func (s *RedisServer) start(program string) error {
	cmd := s.guard.Command(context.Background(), program, s.file)
	process, err := s.guard.Start(cmd, s.guard.Path("log"))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = process
	s.mu.Unlock()
	answers := func() bool {
		reply, err := s.Do("PING")
		return err == nil || strings.HasPrefix(reply, "NOAUTH")
	}
	if poll(patience, func() bool { return answers() || process.Ended() }) && !process.Ended() {
		return nil
	}
	if strings.Contains(process.Said(), "Address already in use") {
		return errPortTaken
	}
	return fmt.Errorf("it does not answer; it said:\n%s", process.Said())
}

// Addr is the server's address.
func (s *RedisServer) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the server's URL.
func (s *RedisServer) URL() string { return "redis://" + s.Addr() + "/0" }

// Port is the server's port of 127.0.0.1.
func (s *RedisServer) Port() int { return s.port }

// Kill ends the server at once, and with it all that it knew.
func (s *RedisServer) Kill(t testing.TB) {
	t.Helper()
	process := s.current()
	if err := process.Signal(syscall.SIGKILL); err != nil {
		t.Fatalf("kill Redis: %v", err)
	}
	<-process.Done()
}

// Start starts a killed server again, empty, on the same port.
func (s *RedisServer) Start(t testing.TB) {
	t.Helper()
	program, err := FindRedis()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.start(program); err != nil {
		t.Fatalf("start Redis again: %v", err)
	}
}

// Pause freezes the server with SIGSTOP: connections stay open, and nothing answers.
func (s *RedisServer) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Resume ends a [RedisServer.Pause].
func (s *RedisServer) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *RedisServer) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.current().Signal(signal); err != nil {
		t.Fatalf("send %v to Redis: %v", signal, err)
	}
}

func (s *RedisServer) current() *guard.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Must is Do that fails the test on an error.
func (s *RedisServer) Must(t testing.TB, args ...string) string {
	t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		t.Fatalf("Redis command %s: %v", strings.Join(args, " "), err)
	}
	return reply
}

// Do sends one command on a connection of its own, and returns the reply when that is a text or a number. An error of
// the server is also the reply. It is not for work: tests that talk to Redis have a client.
func (s *RedisServer) Do(args ...string) (reply string, err error) {
	const timeout = 5 * time.Second
	conn, err := net.DialTimeout("tcp", s.Addr(), timeout)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := conn.Write([]byte(b.String())); err != nil {
		return "", err
	}
	return readReply(bufio.NewReader(conn))
}

// readReply reads a simple string, an error, an integer or a bulk string
// (https://redis.io/docs/latest/develop/reference/protocol-spec/).
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return text, nil
	case '-':
		return text, errors.New(text)
	case '$':
		length, err := strconv.Atoi(text)
		if err != nil || length < 0 {
			return "", err
		}
		bulk := make([]byte, length+len("\r\n"))
		for read := 0; read < len(bulk); {
			n, err := r.Read(bulk[read:])
			if err != nil {
				return "", err
			}
			read += n
		}
		return string(bulk[:length]), nil
	}
	return "", fmt.Errorf("a reply that is not understood here: %q", line)
}
