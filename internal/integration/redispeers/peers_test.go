package redispeers_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/redisserver"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// peer is another client's lock.
type peer interface {
	try(name string) (bool, error) // does not wait
	wait(name string) error        // waits as that client does, by polling
	release(name string) error
}

// peersOf returns one of each kind on the server.
func peersOf(t *testing.T, server *redisserver.Server) map[string]peer {
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return map[string]peer{
		"redis-py":      newPython(t, server),
		"redsync":       &redsyncPeer{redsync.New(goredis.NewPool(client)), map[string]*redsync.Mutex{}},
		"bsm/redislock": &bsmPeer{redislock.New(client), map[string]*redislock.Lock{}},
	}
}

type redsyncPeer struct {
	*redsync.Redsync
	held map[string]*redsync.Mutex
}

func (p *redsyncPeer) lock(name string, tries int) error {
	mutex := p.NewMutex(name, redsync.WithExpiry(30*time.Second), redsync.WithTries(tries),
		redsync.WithRetryDelay(10*time.Millisecond))
	if err := mutex.Lock(); err != nil {
		return err
	}
	p.held[name] = mutex
	return nil
}

func (p *redsyncPeer) try(name string) (bool, error) {
	err := p.lock(name, 1)
	if taken := (*redsync.ErrTaken)(nil); errors.As(err, &taken) {
		return false, nil
	}
	return err == nil, err
}

func (p *redsyncPeer) wait(name string) error { return p.lock(name, 6000) }

func (p *redsyncPeer) release(name string) error {
	ok, err := p.held[name].Unlock()
	if err == nil && !ok {
		err = errors.New("it was not held")
	}
	return err
}

type bsmPeer struct {
	*redislock.Client
	held map[string]*redislock.Lock
}

func (p *bsmPeer) lock(name string, options *redislock.Options) (err error) {
	p.held[name], err = p.Obtain(context.Background(), name, 30*time.Second, options)
	return err
}

func (p *bsmPeer) try(name string) (bool, error) {
	err := p.lock(name, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

func (p *bsmPeer) wait(name string) error {
	every := redislock.LinearBackoff(10 * time.Millisecond)
	return p.lock(name, &redislock.Options{RetryStrategy: every})
}

func (p *bsmPeer) release(name string) error { return p.held[name].Release(context.Background()) }

// python is redis-py in a separate process.
type python struct {
	in  io.Writer
	out *bufio.Reader
}

func newPython(t *testing.T, server *redisserver.Server) *python {
	t.Helper()
	program := findPython(t)
	cmd := exec.Command(program, "peer.py", strconv.Itoa(server.Port()))
	in, err := cmd.StdinPipe()
	must.Succeed(t, err)
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Errorf("redis-py: %v", err)
		}
	})
	return &python{in, bufio.NewReader(out)}
}

// findPython returns an interpreter that has redis-py: Debian's packages are for Debian's own.
func findPython(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(name, "-c", "import redis").Run() == nil {
			return name
		}
	}
	t.Fatal("no python3 with redis-py: install it (apt-get install python3-redis, dnf install python3-redis, " +
		"pip install redis)")
	return ""
}

func (p *python) ask(command ...string) (bool, error) {
	if _, err := fmt.Fprintln(p.in, strings.Join(command, " ")); err != nil {
		return false, err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return false, err
	}
	switch line = strings.TrimSpace(line); line {
	case "True":
		return true, nil
	case "False":
		return false, nil
	}
	return false, errors.New(line)
}

func (p *python) try(name string) (bool, error) { return p.ask("try", name) }

func (p *python) wait(name string) error {
	_, err := p.ask("wait", name)
	return err
}

func (p *python) release(name string) error {
	_, err := p.ask("release", name)
	return err
}
