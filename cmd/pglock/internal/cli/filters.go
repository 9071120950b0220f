package cli

import (
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// filters are the flags that choose what a command is about.
type filters struct {
	keys     []string
	only     view.Filter
	advisory bool
}

func (f *filters) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.keys, "key", nil, "only this `KEY` and what is connected with it; may be repeated")
	flags.BoolVar(&f.only.Here, "here", false, "only locks in the connected database")
}

// addAdvisoryTo adds the flag that leaves out what has nothing to do with advisory locks.
func (f *filters) addAdvisoryTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.advisory, "advisory", false, "only waits for advisory locks and locks in rows")
}

func (f *filters) filter(cmd *cobra.Command) (filter view.Filter, err error) {
	filter = f.only
	filter.Keys, err = parseKeys(cmd, f.keys)
	return filter, err
}

// options returns what is asked of the server.
func (f *filters) options(db database) []monitor.Option {
	options := []monitor.Option{monitor.WithTrustedOwner(db.trusted...)}
	if f.advisory {
		options = append(options, monitor.WithAdvisory())
	}
	return options
}
