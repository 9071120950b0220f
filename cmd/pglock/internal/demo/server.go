package demo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
)

// startServer starts the server from programs on this machine, or else from downloaded ones. It can be stopped even
// after an error.
func (d *Demo) startServer(ctx context.Context) (stop func() error, err error) {
	ignoreEnvironment()
	removeDownload := func() error { return nil }
	stop = func() error {
		if d.server == nil {
			return removeDownload()
		}
		return errors.Join(d.server.Stop(), removeDownload())
	}
	programs, err := pgserver.Find()
	if errors.Is(err, pgserver.ErrNoBinaries) && os.Getenv(pgserver.BinariesVariable) == "" {
		programs, removeDownload, err = d.download(ctx, err)
	}
	if err != nil {
		return stop, err
	}
	d.say("Starting %s …", programs)
	d.server, err = pgserver.Start(ctx, pgserver.Options{Binaries: programs})
	if err != nil {
		return stop, err
	}
	d.say("It listens on 127.0.0.1:%d and keeps its files in %s.", d.server.Port(), d.server.SocketDir())
	return stop, nil
}

// ignoreEnvironment removes variables that would redirect or change a connection from the environment, for the workers
// too: the demonstration does not use the user's database.
func ignoreEnvironment() {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") && !strings.HasPrefix(name, "PGLOCK_") {
			_ = os.Unsetenv(name) // cannot fail for a name from the environment
		}
	}
}

func withApplication(connString, application string) string {
	return connString + "&application_name=" + url.PathEscape(application)
}

var errNoServer = errors.New("no server for the demonstration")

// download gets the server's programs for this machine. Without a network the error says what to install.
func (d *Demo) download(ctx context.Context, notFound error) (pgserver.Binaries, func() error, error) {
	d.say("There are no PostgreSQL programs on this machine; downloading some (this can take a while) …")
	dir, err := os.MkdirTemp(programsParent(), "pglock-programs-")
	if err != nil {
		return pgserver.Binaries{}, func() error { return nil }, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	if err := d.downloadInto(ctx, dir); err != nil {
		return pgserver.Binaries{}, remove, fmt.Errorf("%w: %w\n%w", errNoServer, err, notFound)
	}
	programs, err := pgserver.BinariesIn(dir + "/programs/bin")
	return programs, remove, err
}

// programsParent is a directory that the account which runs the server instead of root can enter.
func programsParent() string {
	if os.Geteuid() == 0 {
		return "/tmp"
	}
	return os.TempDir()
}
