package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
)

// try runs the suites of a system on a container of it.
func (e *engine) try(ctx context.Context, s system) []result {
	began := time.Now()
	unavailable := func(err error) []result {
		fmt.Printf("%s: not available: %v\n", s.name, err)
		return []result{{system: s, err: err, when: began, took: time.Since(began)}}
	}
	image, err := e.image(ctx, s)
	if err != nil {
		return unavailable(err)
	}
	container, err := testcontainers.Run(ctx, image, testcontainers.WithCmd(s.command...),
		testcontainers.WithLabels(map[string]string{label: s.name}))
	defer func() { _ = testcontainers.TerminateContainer(container) }() // removeContainers does it otherwise
	if err != nil {
		return unavailable(err)
	}
	version, err := packageVersion(ctx, container, s)
	if err != nil {
		return unavailable(err)
	}
	variables, err := s.await(ctx, container)
	if err != nil {
		return unavailable(err)
	}
	var results []result
	for _, suite := range s.suites {
		r := runSuite(ctx, suite, variables)
		r.system, r.version = s, version
		fmt.Printf("%s (%s), %s: %s\n", s.name, version, suite.name, r.outcome())
		results = append(results, r)
	}
	return results
}

// packageVersion returns the version of the system's package, which must be the one that the row is about.
func packageVersion(ctx context.Context, container *testcontainers.DockerContainer, s system) (string, error) {
	code, output, err := container.Exec(ctx, []string{"dpkg-query", "--show", "--showformat=${Version}", s.packages[0]}, tcexec.Multiplexed())
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(output)
	if err != nil || code != 0 {
		return "", fmt.Errorf("ask for the version of %s: %d, %w: %s", s.packages[0], code, err, text)
	}
	version := string(text)
	if _, after, epoch := strings.Cut(version, ":"); epoch {
		version = after
	}
	if !strings.HasPrefix(version, s.version) {
		return "", fmt.Errorf("version %s of %s is that of Debian %s", version, s.packages[0], s.release)
	}
	return version, nil
}

const (
	serverPort = "5432"
	poolerPort = "6432"
	redisPort  = "6379"
)

// await waits until the system accepts connections, and returns the variables that lead tests to it.
func (s system) await(ctx context.Context, container *testcontainers.DockerContainer) ([]string, error) {
	ip, err := container.ContainerIP(ctx)
	if err != nil {
		return nil, err
	}
	postgres := func(port string) string {
		return "postgres://postgres:matrix@" + net.JoinHostPort(ip, port) + "/postgres?sslmode=disable"
	}
	ports, variables := []string{serverPort}, []string{"PGLOCK_TEST_DATABASE_URL=" + postgres(serverPort)}
	switch s.command[0] {
	case "postgres":
	case "redis", "valkey":
		ports, variables = []string{redisPort}, []string{"PGLOCK_TEST_REDIS_URL=redis://" + net.JoinHostPort(ip, redisPort) + "/0"}
	default:
		ports = append(ports, poolerPort)
		variables = append(variables, "PGLOCK_TEST_POOLER_URL="+postgres(poolerPort), "PGLOCK_TEST_POOLER_MODE="+s.command[1])
	}
	for _, port := range ports {
		if err := awaitPort(ctx, container, net.JoinHostPort(ip, port)); err != nil {
			return nil, err
		}
	}
	return variables, nil
}

func awaitPort(ctx context.Context, container *testcontainers.DockerContainer, address string) error {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		if !container.IsRunning() || time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("connect to the container: %w; it says: %s", err, said(container))
		}
	}
}

func said(container *testcontainers.DockerContainer) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	log, err := container.Logs(ctx)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = log.Close() }()
	text, err := io.ReadAll(log)
	if err != nil {
		return err.Error()
	}
	return lastLine(string(text))
}

var (
	passedTest  = regexp.MustCompile(`(?m)^ *--- PASS`)
	failedTests = regexp.MustCompile(`(?m)^--- FAIL: \S+`)
)

// runSuite runs the tests, one package after the other, since they share the server.
func runSuite(ctx context.Context, s suite, variables []string) result {
	began := time.Now()
	args := append([]string{"test", "-count=1", "-vet=off", "-v", "-p=1", "-timeout=15m", "-run=" + s.run}, strings.Fields(s.packages)...)
	test := exec.CommandContext(ctx, "go", args...)
	test.Dir = filepath.Join(root, s.module)
	test.Env = append(os.Environ(), variables...)
	output, err := test.CombinedOutput()
	r := result{suite: s.name, when: began, passed: len(passedTest.FindAll(output, -1)), took: time.Since(began)}
	switch failed := failedTests.FindAll(output, -1); {
	case err == nil && r.passed == 0:
		r.err = fmt.Errorf("no test ran")
	case err != nil:
		r.err = fmt.Errorf("%w; %s; the output is %s", err, bytes.Join(failed, []byte(", ")), keep(output))
	}
	return r
}

// root is the directory of the repository, from here.
const root = "../../../.."

func keep(output []byte) string {
	file, err := os.CreateTemp("", "pglock-matrix-*.log")
	if err != nil {
		return err.Error()
	}
	_, err = file.Write(output)
	if closed := file.Close(); err != nil || closed != nil {
		return "lost"
	}
	return file.Name()
}
