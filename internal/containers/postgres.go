package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/testcontainers/testcontainers-go"
)

const (
	postgresPort = "5432/tcp"
	superuser    = "postgres"
	// startTimeout is for the start alone; an image that has to be pulled first takes what it takes.
	startTimeout = 2 * time.Minute
	pollInterval = 100 * time.Millisecond
)

// settings are what the tests ask of their server: room for sessions, locks and prepared transactions.
var settings = []string{
	"-c", "max_connections=300", "-c", "max_locks_per_transaction=256", "-c", "max_prepared_transactions=20",
	"-c", "fsync=off",
}

// postgres is a running container.
type postgres struct {
	container *testcontainers.DockerContainer
	url       string
}

// startPostgres returns when the server accepts connections.
func startPostgres(ctx context.Context, image string) (*postgres, error) {
	fmt.Fprintf(os.Stderr, "containers: starting %s\n", image)
	password := rand.Text()
	container, err := testcontainers.Run(ctx, image,
		testcontainers.WithEnv(map[string]string{"POSTGRES_USER": superuser, "POSTGRES_PASSWORD": password}),
		testcontainers.WithExposedPorts(postgresPort),
		testcontainers.WithCmd(append([]string{"postgres"}, settings...)...),
	)
	server := &postgres{container: container}
	if err == nil {
		err = server.becomeReady(ctx, password)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", image, err), server.remove())
	}
	return server, nil
}

func (p *postgres) remove() error { return testcontainers.TerminateContainer(p.container) }

func (p *postgres) becomeReady(ctx context.Context, password string) error {
	host, err := p.container.Host(ctx)
	if err != nil {
		return err
	}
	port, err := p.container.MappedPort(ctx, postgresPort)
	if err != nil {
		return err
	}
	p.url = databaseURL(password, host, port.Port())
	return p.awaitConnection(ctx)
}

func databaseURL(password, host, port string) string {
	return (&url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, password),
		Host:     net.JoinHostPort(host, port),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}).String()
}

// awaitConnection connects from outside: official images start the server once before, for their own use, on a Unix
// socket only.
func (p *postgres) awaitConnection(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, p.url)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting for a connection: %w\n%s", context.Cause(ctx), err, p.log())
		case <-time.After(pollInterval):
		}
		if !p.container.IsRunning() {
			return fmt.Errorf("the container has ended\n%s", p.log())
		}
	}
}

// log is what the container has said, for an error.
func (p *postgres) log() string {
	text, err := p.readLog()
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	return text
}

func (p *postgres) readLog() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	reader, err := p.container.Logs(ctx)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(reader)
	return string(text), errors.Join(err, reader.Close())
}
