package faults_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/integration/histories"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// childVariable makes this test binary a process that holds locks, to be frozen or killed.
const childVariable = "PGLOCK_FAULTS_CHILD"

// orders tell a child what to do: to open Lockers, each for some names, and to lock all of these.
type orders struct {
	Deployment deployment
	Distance   time.Duration
	Names      [][]string
}

func init() {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	if err := runChild(text); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// childLock is a lock as the child sees it.
type childLock struct {
	name string
	lock *pglock.Lock
	last time.Time // the beginning of the last check that found the lock held
	over bool
}

// runChild takes the locks, prints a line, and checks them in a loop. As soon as it finds that one is lost, it prints
// the time of that check and the beginning of the check before. Parent and child read the same wall clock. runChild
// returns when its input ends, so that it does not outlive its parent.
func runChild(text string) error {
	redis.SetLogger(silent{})
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	link := testenv.NewLink(o.Distance)
	var all []*childLock
	for i, names := range o.Names {
		l, err := o.Deployment.open(link.Dial, fmt.Sprintf("child-%d-%d", os.Getpid(), i))
		if err != nil {
			return err
		}
		for _, name := range names {
			var asked time.Time
			lock, err := l.lock(context.Background(), pglock.NewKey(name), func() { asked = time.Now() })
			if err != nil {
				return err
			}
			fmt.Println("locked", name, asked.UnixNano(), time.Now().UnixNano())
			all = append(all, &childLock{name: name, lock: lock})
		}
	}
	fmt.Println("ready")
	for {
		for _, b := range all {
			begin := time.Now()
			switch {
			case b.over:
			case b.lock.Err() == nil:
				b.last = begin
			default:
				b.over = true
				fmt.Println("lost", b.name, b.last.UnixNano(), time.Now().UnixNano())
			}
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// child is the parent's side of a child: one Locker in it is one trial.
type child struct {
	*testing.T
	scene
	cmd     *exec.Cmd
	input   io.Closer
	output  *bufio.Reader
	names   [][]string
	history *histories.History
	holders map[string]int
	begin   time.Time // of the history, with a wall clock
	dead    bool
}

const lockersOfAChild, locksOfALocker = 4, 3

// inChild runs one trial for each Locker of a child: the process is frozen for longer than the lease, or killed.
func (s scene) inChild(t *testing.T, kill bool) {
	c := &child{T: t, scene: s, history: histories.New(), holders: map[string]int{}}
	c.begin = time.Now().Add(-c.history.Now())
	number := trialNumber.Add(1)
	for i := range lockersOfAChild {
		var names []string
		for j := range locksOfALocker {
			names = append(names, fmt.Sprintf("child-%d:%d:%d", number, i, j))
		}
		c.names = append(c.names, names)
	}
	if err := c.start(); err != nil {
		t.Errorf("start a process that holds locks: %v", err)
		return
	}
	defer c.end()
	time.Sleep(rand.N(lease / 2))
	c.runFault(kill)
	what := "a process is frozen"
	if kill {
		what = "a process is killed"
	}
	check(t, s.tally, what, c.history)
	s.tally.Trials.Add(lockersOfAChild)
}

func (c *child) start() (err error) {
	text, err := json.Marshal(orders{c.deployment, c.distance, c.names})
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	c.cmd = exec.Command(program)
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	c.cmd.Stderr = os.Stderr
	if c.input, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	output, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	c.output = bufio.NewReader(output)
	if err := c.cmd.Start(); err != nil {
		return err
	}
	for {
		event, name, from, to, err := c.read()
		if err != nil {
			return errors.Join(err, c.cmd.Process.Kill(), c.cmd.Wait())
		}
		if event == "ready" {
			return nil
		}
		c.tally.Operations.Add(1)
		c.holders[name] = c.history.Holder()
		c.add(name, histories.Acquired, from, to)
	}
}

// read reads a line of the child.
func (c *child) read() (event, name string, from, to time.Duration, err error) {
	line, err := c.output.ReadString('\n')
	if err != nil {
		return "", "", 0, 0, err
	}
	fields := strings.Fields(line)
	if len(fields) == 1 {
		return fields[0], "", 0, 0, nil
	}
	if len(fields) != 4 {
		return "", "", 0, 0, fmt.Errorf("the process said %q", line)
	}
	first, firstErr := strconv.ParseInt(fields[2], 10, 64)
	second, secondErr := strconv.ParseInt(fields[3], 10, 64)
	at := func(nanoseconds int64) time.Duration { return time.Unix(0, nanoseconds).Sub(c.begin.Round(0)) }
	return fields[0], fields[1], at(first), at(second), errors.Join(firstErr, secondErr)
}

func (c *child) add(name string, event histories.Event, from, to time.Duration) {
	c.history.Add(histories.Entry{
		Key: name, Holder: c.holders[name], Event: event, From: from, To: to,
	})
}

// runFault freezes or kills the child, lets others take its locks, and lets a frozen child report what it saw.
func (c *child) runFault(kill bool) {
	signal := syscall.SIGSTOP
	if kill {
		signal = syscall.SIGKILL
	}
	at := c.history.Now()
	if err := c.cmd.Process.Signal(signal); err != nil {
		c.Error(err)
		return
	}
	if kill {
		c.tally.Kills.Add(1)
		c.dead = true
		for name := range c.holders {
			c.add(name, histories.Lost, at, histories.Never)
		}
	} else {
		c.tally.Freezes.Add(1)
	}
	thaw := func() error { return c.cmd.Process.Signal(syscall.SIGCONT) }
	c.takeOver()
	if kill {
		return
	}
	if err := thaw(); err != nil {
		c.Error(err)
		return
	}
	for range c.holders {
		event, name, from, to, err := c.read()
		if err != nil || event != "lost" {
			violation(c.T, c.tally, "a process that was frozen said %q, %v", event, err)
			return
		}
		if from >= 0 { // otherwise the lock was lost before the first check
			c.add(name, histories.Held, from, from)
		}
		c.add(name, histories.Lost, 0, to)
	}
}

// takeOver takes all locks of the child, with one Locker for each of the child's Lockers.
func (c *child) takeOver() {
	var all sync.WaitGroup
	for i, names := range c.names {
		next, err := c.open(new(net.Dialer).DialContext, fmt.Sprintf("next-%s", names[0]))
		if err != nil {
			c.Error(err)
			return
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := errors.Join(next.Close(ctx), next.closeClients()); err != nil {
				c.Errorf("Close of next Locker %d: %v", i, err)
			}
		}()
		for _, name := range names {
			all.Go(func() { c.take(next, name) })
		}
	}
	all.Wait()
}

func (c *child) take(next *client, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	key, holder := pglock.NewKey(name).String(), c.history.Holder()
	var asked time.Duration
	lock, err := next.lock(ctx, pglock.NewKey(name), func() { asked = c.history.Now() })
	c.tally.Operations.Add(1)
	if err != nil {
		violation(c.T, c.tally, "the lock of a process that is gone cannot be taken: %v", err)
		return
	}
	add := func(event histories.Event, from, to time.Duration) {
		c.history.Add(histories.Entry{Key: key, Holder: holder, Event: event, From: from, To: to})
	}
	add(histories.Acquired, asked, c.history.Now())
	from := c.history.Now()
	switch err := lock.Unlock(ctx); {
	case err == nil:
		add(histories.Released, from, c.history.Now())
	case errors.Is(err, pglock.ErrLost):
		add(histories.Lost, asked, c.history.Now())
	default:
		add(histories.Lost, asked, histories.Never)
	}
}

// end ends the child, which may have been killed.
func (c *child) end() {
	_ = c.cmd.Process.Signal(syscall.SIGCONT)
	_ = c.input.Close()
	if err := c.cmd.Wait(); err != nil && !c.dead {
		c.Errorf("a process that held locks: %v", err)
	}
}
