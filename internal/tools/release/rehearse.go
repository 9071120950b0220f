package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// rehearse makes a release of the last commit in a copy of the repository, and uses it as a stranger would, with
// nothing but a proxy.
func (r *repository) rehearse(ctx context.Context, version string) (err error) {
	scratch, err := os.MkdirTemp("", "pglock-release-")
	if err != nil {
		return err
	}
	// The go command makes the files of its cache read-only, so it has to clear it itself.
	s := newStranger(r, filepath.Join(scratch, "stranger"), filepath.Join(scratch, "proxy"), version)
	defer func() { err = errors.Join(err, s.clear(), os.RemoveAll(scratch)) }()

	if err := r.release(ctx, version, filepath.Join(scratch, "source"), s.proxy); err != nil {
		return err
	}
	// All but our own modules comes from the cache of this machine.
	if err := r.download(ctx); err != nil {
		return err
	}
	if err := s.inherit(ctx); err != nil {
		return err
	}
	for _, m := range r.published() {
		if err := s.use(ctx, m); err != nil {
			return fmt.Errorf("a stranger with %s %s: %w", m.path, version, err)
		}
	}
	return errors.Join(s.install(ctx, "pglock", "version"), s.install(ctx, "sqlc-gen-pglock"), s.measure(ctx))
}

// release makes a release of the last commit in a copy of the repository, and writes a folder that can be a GOPROXY.
func (r *repository) release(ctx context.Context, version, source, proxy string) error {
	if changed, _ := r.git(ctx, "status", "--porcelain"); changed != "" {
		fmt.Println("what is not committed is left out")
	}
	copied, err := r.clone(ctx, source)
	if err != nil {
		return err
	}
	if err := copied.prepare(ctx, version); err != nil {
		return err
	}
	if err := copied.tag(ctx, version); err != nil {
		return err
	}
	if err := copied.check(ctx); err != nil {
		return fmt.Errorf("make check-modules fails after the release: %w", err)
	}
	return copied.serve(proxy, version)
}

// serveCopy is release with a copy that does not stay.
func (r *repository) serveCopy(ctx context.Context, version, proxy string) (err error) {
	source, err := os.MkdirTemp("", "pglock-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(source)) }()
	return r.release(ctx, version, filepath.Join(source, "source"), proxy)
}

// clone copies the last commit, without tags, to a repository in which anyone can commit.
func (r *repository) clone(ctx context.Context, folder string) (*repository, error) {
	if _, err := r.git(ctx, "clone", "--quiet", "--no-tags", "--no-hardlinks", "--depth=1", "file://"+r.root, folder); err != nil {
		return nil, err
	}
	for _, setting := range [][]string{{"user.name", "rehearsal"}, {"user.email", "rehearsal@example.com"}, {"commit.gpgsign", "false"}, {"tag.gpgsign", "false"}} {
		if _, err := output(ctx, folder, nil, "git", append([]string{"config"}, setting...)...); err != nil {
			return nil, err
		}
	}
	return open(ctx, folder)
}
