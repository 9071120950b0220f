package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
)

// Share starts a server that the packages of a run of tests share, and makes the cluster that their other servers are copies
// of. The environment that it returns leads the tests there. If this process has the environment already, it does nothing.
func Share(ctx context.Context) (environment []string, stop func() error, err error) {
	if os.Getenv(DatabaseVariable) != "" {
		return nil, func() error { return nil }, nil
	}
	template, err := pgserver.MakeTemplate(ctx)
	if err != nil {
		return nil, nil, err
	}
	server, err := pgserver.Start(ctx, pgserver.Options{Template: template.Dir(), Settings: sharedSettings()})
	if err != nil {
		return nil, nil, errors.Join(err, template.Stop())
	}
	stop = func() error { return errors.Join(server.Stop(), template.Stop()) }
	installed, err := install(hostOn(server))
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make the database that has the schema: %w", err), stop())
	}
	return []string{
		TemplateVariable + "=" + template.Dir(),
		DatabaseVariable + "=" + server.ConnString(pgserver.Superuser),
		InstalledVariable + "=" + installed,
	}, stop, nil
}

// sharedSettings leave room for the tests of several packages at a time.
func sharedSettings() map[string]string {
	all := maps.Clone(settings)
	all["max_connections"], all["max_prepared_transactions"] = "1500", "100"
	all["max_locks_per_transaction"] = "128"
	return all
}
