package cli

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/monitor"
)

// namesFile is the flag with a file of key names.
type namesFile struct{ path string }

func (n *namesFile) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&n.path, "names", "",
		"use the key names in this `FILE`: on each line one name, or a pattern such as job:{1..9}")
}

// options reads the file.
func (n *namesFile) options(cmd *cobra.Command) (_ []monitor.Option, err error) {
	if !cmd.Flags().Changed("names") {
		return nil, nil
	}
	file, err := os.Open(n.path)
	if err != nil {
		return nil, misuse(cmd, "--names: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	names, err := monitor.ReadDictionary(file)
	if err != nil {
		return nil, misuse(cmd, "--names: %s: %w", n.path, err)
	}
	return []monitor.Option{monitor.WithDictionary(names)}, nil
}
