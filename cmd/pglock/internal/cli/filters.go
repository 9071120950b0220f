package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/internal/monitordb"
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
	flags.StringArrayVar(&f.only.Databases, "database", nil, "only locks in this `DATABASE`; may be repeated")
	flags.StringArrayVar(&f.only.Applications, "application", nil,
		"only locks that sessions with this `application_name` hold or wait for")
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

var errNoDatabase = errors.New("the server has no database")

// checkDatabases returns an error that matches errNoDatabase if the filter names one that the server does not have.
func checkDatabases(ctx context.Context, pool *pgxpool.Pool, filter view.Filter) error {
	if len(filter.Databases) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	missing, err := monitordb.New(pool).MissingDatabases(ctx, filter.Databases)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("--database: %w %q", errNoDatabase, missing[0])
	}
	return err
}
