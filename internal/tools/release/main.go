// Command release knows the modules of this repository. It keeps their go.mod files tidy, makes a release of them, and
// rehearses one, as a stranger would meet it:
//
//	release check              tidy go.mod files, licences, and imports between published modules, which replace nothing
//	release tidy               tidy the go.mod files
//	release prepare VERSION    commit the go.mod and go.sum files of a release
//	release tag VERSION        tag that commit, for each published module
//	release serve VERSION DIR  do both in a copy, and write a folder with the modules that can be a GOPROXY
//	release rehearse VERSION   do that, and use each module from there
//
// Run it with the repository's root as the current directory. A published module requires others by version, without a
// replace directive; between releases go.work makes the checkout use its own folders instead. The hashes of our own modules in the
// go.sum files are therefore those of the last release: prepare writes them, and tidy leaves them alone.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/mod/semver"
)

const usage = "usage: release check | tidy | prepare VERSION | tag VERSION | serve VERSION DIR | rehearse VERSION"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	repo, err := open(ctx, ".")
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "check":
		return repo.check(ctx)
	case len(args) == 1 && args[0] == "tidy":
		return repo.tidy(ctx)
	case len(args) != 2 && (len(args) != 3 || args[0] != "serve"):
		return errors.New(usage)
	}
	version := args[1]
	if !semver.IsValid(version) || semver.Canonical(version) != version || semver.Major(version) > "v1" {
		return fmt.Errorf("%q is not a version such as v0.1.0; from v2 on, Go wants another module path", version)
	}
	switch args[0] {
	case "prepare":
		return repo.prepare(ctx, version)
	case "tag":
		return repo.tag(ctx, version)
	case "serve":
		return repo.serveCopy(ctx, version, args[2])
	case "rehearse":
		return repo.rehearse(ctx, version)
	}
	return errors.New(usage)
}
