package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/secretfile"
)

// servers holds the flags that name the servers that a command watches: one, as with dsn, or several.
type servers struct {
	dsn
	dsns, files, services []string
}

func (s *servers) addTo(cmd *cobra.Command) {
	s.addTrustTo(cmd)
	flags := cmd.Flags()
	flags.StringArrayVarP(&s.dsns, "dsn", "d", nil, "the database, a `URL`, keyword=value pairs or a name; repeat it "+
		"to watch several servers (default $DATABASE_URL, or what psql uses)")
	flags.StringArrayVar(&s.files, "dsn-file", nil, "watch the servers in this `FILE`, one on each line")
	flags.StringArrayVar(&s.services, "service", nil, "watch the server of this service `NAME` in pg_service.conf; may be repeated")
	complete(cmd, "dsn")
	completeWith(cmd, "service", serviceNames)
	if err := cmd.MarkFlagFilename("dsn-file"); err != nil {
		panic(err) // the flag was not added before
	}
}

// addDatabaseArgument reads the name of a database from the arguments, as psql does.
func (s *servers) addDatabaseArgument(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && len(s.files)+len(s.services) > 0 {
		return misuse(cmd, "the database %q contradicts --service and --dsn-file", args[0])
	}
	return s.dsn.addDatabaseArgument(cmd, args)
}

// source is a connection string, and where it comes from.
type source struct{ where, value string }

// resolve returns the servers that the flags name, in the given order. It does not connect.
func (s *servers) resolve(cmd *cobra.Command) ([]database, error) {
	sources, err := s.sources(cmd)
	if err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		sources = []source{{}}
	}
	var all []database
	for _, from := range sources {
		one := s.dsn
		one.where, one.value = from.where, from.value
		db, err := one.find(cmd)
		if err != nil {
			return nil, err
		}
		if db.warning != "" && !slices.ContainsFunc(all, func(other database) bool { return other.warning == db.warning }) {
			say(cmd.ErrOrStderr(), "%s", db.warning)
		}
		db.label = cmp.Or(settingsOf(from.value)["service"], addressLabel(db.config.ConnConfig))
		if slices.ContainsFunc(all, func(other database) bool { return other.label == db.label }) {
			return nil, misuse(cmd, "%s: server %s is given twice", from.where, db.label)
		}
		all = append(all, db)
	}
	return all, nil
}

func (s *servers) sources(cmd *cobra.Command) (all []source, err error) {
	for _, value := range s.dsns {
		all = append(all, source{"--dsn", value})
	}
	for _, name := range s.services {
		if strings.TrimSpace(name) == "" {
			return nil, misuse(cmd, "--service is empty")
		}
		all = append(all, source{"--service", pair("service", name)})
	}
	for _, path := range s.files {
		if path == "-" {
			return nil, misuse(cmd, "--dsn-file: the standard input is for keys: give a file")
		}
		lines, err := secretfile.Lines(path)
		if err != nil {
			return nil, misuse(cmd, "--dsn-file: %w", err)
		}
		if len(lines) == 0 {
			return nil, misuse(cmd, "--dsn-file: %s names no server", path)
		}
		for _, line := range lines {
			all = append(all, source{fmt.Sprintf("--dsn-file: %s, line %d", path, line.Number), line.Text})
		}
	}
	return all, nil
}

// addressLabel names the server of a connection by what is known before connecting.
func addressLabel(config *pgx.ConnConfig) string {
	return addresses(config) + "/" + cmp.Or(config.Database, config.User)
}

func targets(all []database) (names []string) {
	for _, db := range all {
		names = append(names, db.target)
	}
	return names
}
