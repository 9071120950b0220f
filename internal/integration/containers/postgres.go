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
	"strings"

	"github.com/testcontainers/testcontainers-go"
)

const (
	postgresPort = "5432/tcp"
	superuser    = "postgres"
)

// settings give the tests room for sessions, locks and prepared transactions.
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
	password := rand.Text()
	waits := saying("for Docker to start a container of " + image + " (a pull may take minutes)")
	container, err := testcontainers.Run(ctx, image,
		testcontainers.WithEnv(map[string]string{"POSTGRES_USER": superuser, "POSTGRES_PASSWORD": password}),
		testcontainers.WithExposedPorts(postgresPort),
		testcontainers.WithCmd(append([]string{"postgres"}, settings...)...),
	)
	waits.end()
	server := &postgres{container: container}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w\n%s", image, err, advice), server.remove())
	}
	if err := server.becomeReady(ctx, password); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", image, err), server.remove())
	}
	return server, nil
}

func (p *postgres) remove() error { return testcontainers.TerminateContainer(p.container) }

// becomeReady waits until the server answers, and keeps the URL that worked.
func (p *postgres) becomeReady(ctx context.Context, password string) error {
	addresses, err := p.addresses(ctx)
	if err != nil {
		return err
	}
	var urls []string
	for _, address := range addresses {
		urls = append(urls, databaseURL(password, address.host, address.port))
	}
	p.url, err = awaitConnection(ctx, urls, p.container.IsRunning)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, p.log())
	}
	return nil
}

type address struct{ host, port string }

// addresses returns the possible addresses of the server. The one from testcontainers is right for a program on the
// engine's host; a program in a container, or with a remote engine, may have to use another one.
func (p *postgres) addresses(ctx context.Context) ([]address, error) {
	port, err := p.container.MappedPort(ctx, postgresPort)
	if err != nil {
		return nil, err
	}
	host, err := p.container.Host(ctx)
	if err != nil {
		return nil, err
	}
	found := []address{{host, port.Port()}}
	if os.Getenv(hostVariable) != "" {
		return found, nil
	}
	found = append(found, address{"127.0.0.1", port.Port()})
	if ip, err := p.container.ContainerIP(ctx); err == nil && ip != "" {
		own, _, _ := strings.Cut(postgresPort, "/")
		found = append(found, address{ip, own})
	}
	return found, nil
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

// log is the container's output, for an error.
func (p *postgres) log() string {
	text, err := p.readLog()
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	return text
}

func (p *postgres) readLog() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), logTimeout)
	defer cancel()
	reader, err := p.container.Logs(ctx)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(reader)
	return string(text), errors.Join(err, reader.Close())
}
