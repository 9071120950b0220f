package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// install installs the missing packages with apt-get, and checks whether that was enough.
func install(missing []need) error {
	names := packages(missing, func(n need) []string { return n.apt })
	fmt.Printf("prepare: installing with apt-get: %s (%s=1 would refuse)\n", names, noInstallVariable)
	if err := withoutServices(func() error { return aptInstall(strings.Fields(names)) }); err != nil {
		return fmt.Errorf("%w\n%s", err, advice(missing))
	}
	for _, needed := range missing {
		if err := needed.find(); err != nil {
			return fmt.Errorf("after installing %s: %w", strings.Join(needed.apt, " "), err)
		}
	}
	return nil
}

func aptInstall(names []string) error {
	if err := aptGet("update"); err != nil {
		return err
	}
	return aptGet(append([]string{"install", "--yes", "--no-install-recommends"}, names...)...)
}

// aptGet hides the output of apt-get unless it fails.
func aptGet(args ...string) error {
	cmd := exec.Command("apt-get", append([]string{"--quiet=2"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, output)
	}
	return nil
}

// temporary files keep Debian's packages from creating a database cluster (createcluster.conf in postgresql-common)
// and from starting services (invoke-rc.d asks policy-rc.d): only the programs are needed.
var temporary = map[string]struct {
	content string
	mode    fs.FileMode
}{
	"/etc/postgresql-common/createcluster.d/pglock.conf": {"create_main_cluster = false\n", 0o644},
	"/usr/sbin/policy-rc.d":                              {"#!/bin/sh\nexit 101\n", 0o755},
}

// withoutServices calls do while the temporary files exist. An existing policy of the machine is kept.
func withoutServices(do func() error) (err error) {
	for path, file := range temporary {
		if _, statErr := os.Lstat(path); statErr == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.Remove(path)) }()
		if err := os.WriteFile(path, []byte(file.content), file.mode); err != nil {
			return err
		}
	}
	return do()
}
