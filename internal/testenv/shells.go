package testenv

import (
	"errors"
	"os"
)

// FindBashCompletion returns the path of the script that bash reads the functions of the package bash-completion from.
func FindBashCompletion() (string, error) {
	for _, path := range []string{"/usr/share/bash-completion/bash_completion", "/opt/homebrew/share/bash-completion/bash_completion",
		"/usr/local/share/bash-completion/bash_completion"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no bash-completion (apt-get install bash-completion, dnf install bash-completion, " +
		"brew install bash-completion@2)")
}
