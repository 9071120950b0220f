package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// startTimeout bounds only the server's start, which takes seconds; the time to pull an image is not bounded.
	startTimeout = time.Minute
	// dialTimeout bounds one attempt to connect, which an unreachable address would use up.
	dialTimeout  = 2 * time.Second
	pollInterval = 100 * time.Millisecond
	sayInterval  = 5 * time.Second
	logTimeout   = 10 * time.Second
)

// hostVariable is a variable of testcontainers.
const hostVariable = "TESTCONTAINERS_HOST_OVERRIDE"

const advice = `Docker's engine has to run (docker info) and to have the image (docker image ls) or a registry to pull it from.
Without a registry:
  make the image                internal/integration/containers/debian.sh image 17 pglock-postgres:17
  do not pull testcontainers'   TESTCONTAINERS_RYUK_DISABLED=true`

// waiting reports at intervals what the program waits for.
type waiting struct{ stop, stopped chan struct{} }

// saying reports now, and then every few seconds, what the program waits for, until the wait ends.
func saying(what string) *waiting {
	w := &waiting{stop: make(chan struct{}), stopped: make(chan struct{})}
	start := time.Now()
	say := func() { fmt.Fprintf(os.Stderr, "containers: waiting %s, %.0f s\n", what, time.Since(start).Seconds()) }
	say()
	go func() {
		defer close(w.stopped)
		for {
			select {
			case <-w.stop:
				return
			case <-time.After(sayInterval):
				say()
			}
		}
	}()
	return w
}

func (w *waiting) end() {
	close(w.stop)
	<-w.stopped
}

// awaitConnection returns the first of the URLs at which the server answers. It connects from outside: official images
// start the server once before, for their own use, on a Unix socket only.
func awaitConnection(ctx context.Context, urls []string, running func() bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	defer saying("for PostgreSQL to answer at " + hosts(urls)).end()
	for {
		found, err := connectToOne(ctx, urls)
		switch {
		case err == nil:
			return found, nil
		case ctx.Err() != nil:
			return "", fmt.Errorf("%w while waiting for PostgreSQL to answer at %s: %w\n"+
				"(%s names the host at which Docker's ports can be reached from here)",
				context.Cause(ctx), hosts(urls), err, hostVariable)
		case !running():
			return "", fmt.Errorf("the container has ended: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
}

// connectToOne tries all URLs at the same time.
func connectToOne(ctx context.Context, urls []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	type result struct {
		url string
		err error
	}
	results := make(chan result, len(urls))
	for _, url := range urls {
		go func() { results <- result{url, connect(ctx, url)} }()
	}
	var errs []error
	for range urls {
		r := <-results
		if r.err == nil {
			return r.url, nil
		}
		errs = append(errs, r.err)
	}
	return "", errors.Join(errs...)
}

func connect(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// hosts names the servers of URLs, without the passwords.
func hosts(urls []string) string {
	var names []string
	for _, url := range urls {
		config, err := pgx.ParseConfig(url)
		if err != nil {
			continue
		}
		names = append(names, fmt.Sprintf("%s:%d", config.Host, config.Port))
	}
	return strings.Join(names, " or ")
}
