// Command page measures the cost of a recording, and that of the page of pglock monitor --http: of the program that
// serves it, and of a headless Chromium that shows it. Meanwhile a server has 5,000 advisory locks of 100 sessions, 40
// waiters, and 250 changes a second.
//
//	go run ./page [-seconds N] [-minutes N] [-browser=false] [-pglock FILE]
//
// Figures are processor time. The cost of a recording is that of a program that watches and records, minus that of one
// that only watches at the same time. The browser's figures are the processor time of all its processes, minus what
// they use for an empty page, and how busy the page's own thread was according to Chromium (Performance.getMetrics).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
)

func main() {
	seconds := flag.Int("seconds", 30, "length of each measurement")
	minutes := flag.Int("minutes", 3, "for how many minutes a recording is measured")
	browser := flag.Bool("browser", true, "measure the page in a browser too")
	program := flag.String("pglock", "", "measure this program instead of building one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, time.Duration(*seconds)*time.Second, max(1, *minutes), *browser, *program); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, long time.Duration, minutes int, browser bool, program string) (err error) {
	program, remove, err := build(ctx, program)
	if err != nil {
		return err
	}
	defer remove()
	server, err := pgserver.Start(ctx, pgserver.Options{Settings: map[string]string{
		"max_connections": "200", "max_locks_per_transaction": "512", "autovacuum": "off"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	dsn := server.ConnString(pgserver.Superuser)
	scene, err := begin(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scene.close()) }()
	fmt.Printf("PostgreSQL %s; %d locks of %d sessions, %d waiters, %d changes a second; each for %v\n",
		server.Binaries().Version, locks, holders, waiters, changes, long)
	m := measurement{program: program, dsn: dsn, long: long}
	if err := m.recording(ctx, minutes); err != nil {
		return err
	}
	if err := m.server(ctx); err != nil || !browser {
		return err
	}
	return m.browser(ctx)
}
