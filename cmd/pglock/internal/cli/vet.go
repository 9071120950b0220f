package cli

import (
	"errors"
	"os"
	"os/exec"

	"github.com/spf13/cobra"
)

func newVet() *cobra.Command {
	return &cobra.Command{
		Use:   "vet [PACKAGE…]",
		Short: "Find mistakes with locks in Go programs",
		Long: `Find mistakes with locks in Go packages (default ./...): sqlc queries with a
lock that run on a plain transaction or pool, keys made by hand where generated
ones exist, locks that are dropped or not unlocked on some path, work under a
lock that does not notice its loss, transaction locks taken outside a
transaction.

It runs "go vet" with the analyzers of pglock-vet, a separate program so that
its dependencies stay out of this one:

  go install github.com/pglock-toolkit/pglock/cmd/pglock-vet@latest

The exit code is go vet's: 1 if something was found.`,
		Example: `  pglock vet
  go vet -vettool=$(which pglock-vet) ./...`,
		RunE: func(_ *cobra.Command, args []string) error { return vet(args) },
	}
}

func vet(packages []string) error {
	tool, err := exec.LookPath("pglock-vet")
	if err != nil {
		return errors.New("pglock-vet is not on the PATH: " +
			"go install github.com/pglock-toolkit/pglock/cmd/pglock-vet@latest")
	}
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	cmd := exec.Command("go", append([]string{"vet", "-vettool=" + tool}, packages...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
			return &exit{code: codeOther} // go vet has said why
		}
		return err
	}
	return nil
}
