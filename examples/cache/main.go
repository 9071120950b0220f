// Command cache counts how often an origin is asked for a value that is missing in a cache, when many callers of several
// processes want it at the same moment: without a lock, and with one.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/pglock"
)

type settings struct {
	processes, callers int
	takes              time.Duration
	lock               bool
	child              string // the address of the origin, in a process that asks it
}

func main() {
	var s settings
	flag.IntVar(&s.processes, "processes", 4, "how many processes there are")
	flag.IntVar(&s.callers, "callers", 50, "how many callers each has")
	flag.DurationVar(&s.takes, "takes", 300*time.Millisecond, "how long the origin takes for an answer")
	flag.BoolVar(&s.lock, "lock", false, "take the lock, in a process that is started by the program")
	flag.StringVar(&s.child, "origin", "", "the URL of the origin, in a process that is started by the program")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := compare
	if s.child != "" {
		run = call
	}
	if err := run(ctx, s); err != nil {
		log.Fatal(err)
	}
}

// compare lets the processes ask twice for a value that the cache does not have, and prints the load on the origin.
func compare(ctx context.Context, s settings) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, schema); err != nil {
		return err
	}
	fmt.Printf("%d callers of %d processes, and an origin that takes %v\n", s.processes*s.callers, s.processes, s.takes)
	for _, s.lock = range []bool{false, true} {
		if _, err := pool.Exec(ctx, "DELETE FROM cache"); err != nil {
			return err
		}
		asked, took, err := measure(ctx, s)
		if err != nil {
			return err
		}
		fmt.Printf("%-15s %3d requests to the origin, all callers answered after %v\n",
			map[bool]string{false: "without a lock", true: "with a lock"}[s.lock], asked, took.Round(10*time.Millisecond))
	}
	return nil
}

// measure starts an origin and the processes.
func measure(ctx context.Context, s settings) (asked int64, took time.Duration, err error) {
	var count atomic.Int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		time.Sleep(s.takes)
		fmt.Fprint(w, "the value of ", r.URL.Path)
	})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()

	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	started := time.Now()
	ended := make(chan error, s.processes)
	for range s.processes {
		process := exec.CommandContext(ctx, self, "-origin=http://"+listener.Addr().String(),
			fmt.Sprintf("-callers=%d", s.callers), fmt.Sprintf("-lock=%v", s.lock))
		var output bytes.Buffer
		process.Stderr = &output
		go func() {
			err := process.Run()
			if err != nil {
				err = fmt.Errorf("a process ends with %w: %s", err, &output)
			}
			ended <- err
		}()
	}
	for range s.processes {
		err = errors.Join(err, <-ended)
	}
	return count.Load(), time.Since(started), err
}

// call is a process: its callers all ask for one value.
func call(ctx context.Context, s settings) (err error) {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	locker, err := pglock.New(pool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close(context.Background())) }()
	c := &cache{pool: pool, locker: locker, keep: time.Minute}
	get := c.getWithoutLock
	if s.lock {
		get = c.get
	}
	answered := make(chan error, s.callers)
	for range s.callers {
		go func() {
			value, err := get(ctx, "price", ask(s.child))
			if err == nil && value != "the value of /price" {
				err = fmt.Errorf("the value is %q", value)
			}
			answered <- err
		}()
	}
	for range s.callers {
		err = errors.Join(err, <-answered)
	}
	return err
}

// ask returns an origin behind an address.
func ask(address string) origin {
	return func(ctx context.Context, name string) (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/"+name, nil)
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		value, err := io.ReadAll(response.Body)
		return string(value), err
	}
}
