// Command man writes the manual pages of pglock and its subcommands, and the completions of shells, for packages.
//
//	go run . DIRECTORY
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: man DIRECTORY")
		os.Exit(64)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// write makes the directories man and completions in dir.
func write(dir string) error {
	root := cli.Command()
	root.DisableAutoGenTag = true // a date, which would make each page differ from the last one
	pages, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	if err := errors.Join(os.MkdirAll(pages, 0o755), os.MkdirAll(completions, 0o755)); err != nil {
		return err
	}
	date := time.Unix(0, 0) // man(1) then shows none
	header := &doc.GenManHeader{Section: "1", Source: "pglock", Manual: "pglock", Date: &date}
	return errors.Join(doc.GenManTree(root, header, pages), writeCompletions(root, completions))
}

func writeCompletions(root *cobra.Command, dir string) error {
	return errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(dir, "pglock.bash"), true),
		root.GenZshCompletionFile(filepath.Join(dir, "pglock.zsh")),
		root.GenFishCompletionFile(filepath.Join(dir, "pglock.fish"), true),
		root.GenPowerShellCompletionFileWithDesc(filepath.Join(dir, "pglock.ps1")),
	)
}
