package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// try runs the suites of a system on a container of it.
func (s system) try(ctx context.Context) []result {
	began := time.Now()
	version, variables, err := s.start(ctx)
	if err != nil {
		fmt.Printf("%s: not available: %v\n", s.name, err)
		return []result{{system: s, err: err, took: time.Since(began)}}
	}
	var results []result
	for _, suite := range s.suites {
		r := suite.run(ctx, variables)
		r.system, r.version = s, version
		fmt.Printf("%s (%s), %s: %d tests passed, %v\n", s.name, version, suite.name, r.passed, r.err)
		results = append(results, r)
	}
	return results
}

// start starts a container, which the engine removes in the end, and waits until the system accepts connections. It returns
// the system's version, and the variables that lead tests to it.
func (s system) start(ctx context.Context) (version string, variables []string, err error) {
	image, err := s.image(ctx)
	if err != nil {
		return "", nil, err
	}
	container, err := docker(ctx, append([]string{"run", "--detach", "--label=" + label, image}, s.command...)...)
	if err != nil {
		return "", nil, err
	}
	if version, err = s.packageVersion(ctx, container); err != nil {
		return "", nil, err
	}
	ip, err := docker(ctx, "inspect", "--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container)
	if err != nil {
		return "", nil, err
	}
	ports, variables := s.reachedAt(ip)
	for _, port := range ports {
		if err := awaitPort(ctx, container, net.JoinHostPort(ip, port)); err != nil {
			return "", nil, err
		}
	}
	return version, variables, nil
}

// packageVersion returns the version of the system's package, which must be the one that the row is about.
func (s system) packageVersion(ctx context.Context, container string) (string, error) {
	version, err := docker(ctx, "exec", container, "dpkg-query", "--show", "--showformat=${Version}", s.packages[0])
	if err != nil {
		return "", err
	}
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

func (s system) reachedAt(ip string) (ports, variables []string) {
	postgres := func(port string) string {
		return "postgres://postgres:matrix@" + net.JoinHostPort(ip, port) + "/postgres?sslmode=disable"
	}
	server := "PGLOCK_TEST_DATABASE_URL=" + postgres(serverPort)
	switch s.command[0] {
	case "postgres":
		return []string{serverPort}, []string{server}
	case "redis", "valkey":
		return []string{redisPort}, []string{"PGLOCK_TEST_REDIS_URL=redis://" + net.JoinHostPort(ip, redisPort) + "/0"}
	}
	return []string{serverPort, poolerPort},
		[]string{server, "PGLOCK_TEST_POOLER_URL=" + postgres(poolerPort), "PGLOCK_TEST_POOLER_MODE=" + s.command[1]}
}

func awaitPort(ctx context.Context, container, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		running, inspectErr := docker(ctx, "inspect", "--format={{.State.Running}}", container)
		if running != "true" || inspectErr != nil {
			log, _ := docker(context.WithoutCancel(ctx), "logs", "--tail=1", container) // only for the message
			return fmt.Errorf("connect to the container: %w; it says: %s", err, log)
		}
	}
}

var (
	passedTest  = regexp.MustCompile(`(?m)^ *--- PASS`)
	failedTests = regexp.MustCompile(`(?m)^--- FAIL: \S+`)
	noTests     = regexp.MustCompile(`(?m)^\S+\s+(\S+)\s.*\[no tests to run\]`)
)

// run runs the tests, one package after the other, since they share the server.
func (s suite) run(ctx context.Context, variables []string) result {
	began := time.Now()
	args := []string{"test", "-count=1", "-vet=off", "-v", "-p=1", "-timeout=15m", "-run=" + s.tests}
	test := exec.CommandContext(ctx, "go", append(args, strings.Fields(s.packages)...)...)
	test.Dir = filepath.Join("../../..", s.module) // from here
	test.Env = append(os.Environ(), variables...)
	output, err := test.CombinedOutput()
	r := result{suite: s.name, passed: len(passedTest.FindAll(output, -1)), took: time.Since(began)}
	failed, without := failedTests.FindAll(output, -1), noTests.FindSubmatch(output)
	switch {
	case err == nil && without != nil:
		r.err = fmt.Errorf("no test ran in %s", without[1])
	case err != nil:
		_, _ = os.Stderr.Write(output)
		r.err = fmt.Errorf("%w; %s", err, bytes.Join(failed, []byte(", ")))
	}
	return r
}
