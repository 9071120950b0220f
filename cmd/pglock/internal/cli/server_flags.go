package cli

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// words returns the flags that name the database of config on another command line, and the trusted owners of its schema,
// with a space before each. It is empty if none were given, since the environment names the database then. A connection
// string with a password becomes the flags that psql has.
func (d *dsn) words(config *pgx.ConnConfig) string {
	var flags []string
	add := func(flag, value string) {
		if value != "" {
			flags = append(flags, flag, view.Word(value))
		}
	}
	switch value := strings.TrimSpace(d.value); {
	case value != "" && hasSecret(value):
		add("-h", config.Host)
		add("-p", strconv.Itoa(int(config.Port)))
		add("-U", config.User)
		add("-d", config.Database)
	default:
		add("-h", d.host)
		add("-p", d.port)
		add("-U", d.user)
		add("-d", value)
		if value == "" {
			add("-d", d.name)
		}
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
