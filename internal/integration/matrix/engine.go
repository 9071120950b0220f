package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// label is that of our containers.
const label = "pglock.matrix"

// engine is Docker's.
type engine struct {
	daemon *exec.Cmd // nil if it was running
	dir    string
}

// findEngine returns Docker's engine, which it starts if it does not run. Containers that an earlier run has left are
// removed.
func findEngine(ctx context.Context) (*engine, error) {
	for _, program := range []string{"docker", "mmdebstrap"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("there is no %s on the PATH (on Debian: apt-get install docker.io mmdebstrap)", program)
		}
	}
	e := &engine{}
	if _, err := docker(ctx, "info"); err != nil {
		if err := e.start(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("the engine of Docker does not run, and cannot be started: %w", err), e.end())
		}
	}
	return e, removeContainers(ctx)
}

// start starts an engine of our own, whose files stay for the next time.
func (e *engine) start(ctx context.Context) error {
	program, err := exec.LookPath("dockerd")
	if err != nil {
		return err
	}
	if os.Getuid() != 0 {
		return errors.New("that takes root")
	}
	e.dir = filepath.Join(os.TempDir(), "pglock-matrix")
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return err
	}
	socket := "unix://" + e.dir + "/docker.sock"
	if err := os.Setenv("DOCKER_HOST", socket); err != nil {
		return err
	}
	log, err := os.Create(e.dir + "/log")
	if err != nil {
		return err
	}
	e.daemon = exec.CommandContext(context.WithoutCancel(ctx), program, "--data-root="+e.dir+"/data", "--exec-root="+e.dir+"/exec",
		"--pidfile="+e.dir+"/pid", "--host="+socket)
	e.daemon.Stdout, e.daemon.Stderr = log, log
	lead(e.daemon) // an interrupt of this command is not the engine's
	err = errors.Join(e.daemon.Start(), log.Close())
	for deadline := time.Now().Add(time.Minute); err == nil; time.Sleep(100 * time.Millisecond) {
		if _, err := docker(ctx, "info"); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			err = fmt.Errorf("it does not answer within a minute; its log is %s", log.Name())
		}
	}
	return err
}

// end removes our containers, and ends the engine if we have started it.
func (e *engine) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := removeContainers(ctx)
	if e.daemon == nil || e.daemon.Process == nil {
		return err
	}
	err = errors.Join(err, e.daemon.Process.Signal(syscall.SIGTERM))
	_ = e.daemon.Wait() // it ends with the signal's code
	return err
}

func removeContainers(ctx context.Context) error {
	list, err := docker(ctx, "ps", "--all", "--quiet", "--filter", "label="+label)
	if err != nil || list == "" {
		return err
	}
	_, err = docker(ctx, append([]string{"rm", "--force", "--volumes"}, strings.Fields(list)...)...)
	return err
}

// docker runs a command of Docker's, and returns what it prints.
func docker(ctx context.Context, args ...string) (string, error) {
	output, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", args[0], err, text)
	}
	return text, nil
}
