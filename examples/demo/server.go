package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	embedded "github.com/fergusstrange/embedded-postgres"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/supervise"
)

// startServer starts a server of programs on this machine, or else of downloaded ones.
func startServer(ctx context.Context, out io.Writer) (url string, stop func() error, err error) {
	for _, variable := range os.Environ() { // the demonstration does not use the user's own database
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") && !strings.HasPrefix(name, "PGLOCK_") {
			_ = os.Unsetenv(name) // cannot fail for a name from the environment
		}
	}
	server, err := pgserver.Start(ctx, pgserver.Options{})
	switch {
	case err == nil:
		_, _ = fmt.Fprintf(out, "Started %s, with its files in %s.\n", server.Binaries(), server.SocketDir())
		return server.ConnString(pgserver.Superuser), server.Stop, nil
	case !errors.Is(err, pgserver.ErrNoBinaries) || os.Getenv(pgserver.BinariesVariable) != "" || os.Geteuid() == 0:
		return "", nil, err // downloaded programs run as the user of this process, whom PostgreSQL does not want to be root
	}
	_, _ = fmt.Fprintln(out, "There are no PostgreSQL programs on this machine; downloading some (this can take a while) …")
	return startDownloaded(err)
}

// startDownloaded starts a server of programs that it downloads over https into the user's cache.
func startDownloaded(notFound error) (url string, stop func() error, err error) {
	port, err := supervise.FreePort()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "pglock-demo-")
	if err != nil {
		return "", nil, err
	}
	config := embedded.DefaultConfig().Port(uint32(port)).Logger(io.Discard).RuntimePath(filepath.Join(dir, "runtime"))
	server := embedded.NewDatabase(config)
	if err := server.Start(); err != nil {
		return "", nil, errors.Join(notFound, fmt.Errorf("download PostgreSQL: %w", err), os.RemoveAll(dir))
	}
	return config.GetConnectionURL() + "?sslmode=disable", func() error { return errors.Join(server.Stop(), os.RemoveAll(dir)) }, nil
}
