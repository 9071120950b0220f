package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheCommandDecidesTheExitCode(t *testing.T) {
	for script, want := range map[string]int{
		"exit 0":                     0,
		"exit 3":                     3,
		"kill -KILL $$":              128 + 9,
		`test "$PGLOCK_TEST" = seen`: 0,
	} {
		code, err := runCommand(t.Context(), []string{"/bin/sh", "-c", script}, "PGLOCK_TEST=seen")
		if code != want || err != nil {
			t.Errorf("%s: the code is %d, %v, want %d", script, code, err, want)
		}
	}
}

func TestACommandThatCannotRunIsNamed(t *testing.T) {
	if _, err := runCommand(t.Context(), []string{"/no/such/command"}); err == nil {
		t.Error("there is no error")
	}
	if _, err := run(nil); err == nil {
		t.Error("there is no error without a command")
	}
}

func TestAnInterruptedCommandIsAskedToEnd(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	up := filepath.Join(t.TempDir(), "up")
	go func() {
		defer interrupt()
		for t.Context().Err() == nil {
			if _, err := os.Stat(up); err == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	command := []string{"/bin/sh", "-c", `: >"$UP"; exec sleep 1000`}
	if code, err := runCommand(ctx, command, "UP="+up); code != 128+15 || err != nil {
		t.Errorf("the exit code is %d, %v, want that of SIGTERM", code, err)
	}
}
