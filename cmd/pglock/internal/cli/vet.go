package cli

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"

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

It runs "go vet" with this program as its -vettool.

The exit code is go vet's: 1 if something was found.`,
		Example: `  pglock vet
  go vet -vettool=$(which pglock) ./...`,
		RunE: func(_ *cobra.Command, args []string) error { return vet(args) },
	}
}

// isVetTool reports whether go vet has started the program as its -vettool: to ask for its version or its flags, or to
// analyze the package that a file describes.
func isVetTool(args []string) bool {
	if len(args) == 0 {
		return false
	}
	last := args[len(args)-1]
	isNoFlag := func(arg string) bool { return !strings.HasPrefix(arg, "-") }
	return last == "-V=full" || last == "-flags" ||
		strings.HasSuffix(last, ".cfg") && !slices.ContainsFunc(args[:len(args)-1], isNoFlag)
}

func vet(packages []string) error {
	tool, err := os.Executable()
	if err != nil {
		return err
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
