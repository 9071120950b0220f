package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// words returns the flags that name the database of config on another command line, and the trusted owners of its schema,
// with a space before each. It is empty if none were given, since the environment names the database then. A connection
// string with a password becomes a URL without it.
func (d *dsn) words(config *pgx.ConnConfig) string {
	var flags []string
	add := func(flag, value string) {
		if value != "" {
			flags = append(flags, flag, view.Word(value))
		}
	}
	switch value := strings.TrimSpace(d.value); {
	case value != "" && hasSecret(value):
		add("-d", fmt.Sprintf("postgres://%s@%s/%s", url.PathEscape(config.User), address(config.Host, config.Port), url.PathEscape(config.Database)))
	default:
		add("-d", cmp.Or(value, d.name))
	}
	for _, role := range d.trusted {
		add("--trust-owner", role)
	}
	if len(flags) == 0 {
		return ""
	}
	return " " + strings.Join(flags, " ")
}

// hasSecret reports whether a connection string may have a password in it.
func hasSecret(value string) bool {
	if _, isURL := afterScheme(value); isURL {
		u, err := url.Parse(value)
		if err != nil || u.User != nil && strings.Contains(u.User.String(), ":") {
			return true
		}
	}
	return strings.Contains(strings.ToLower(value), "password")
}
