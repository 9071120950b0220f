package cli

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/jackc/pgservicefile"
	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/secretfile"
)

// checkSecrets refuses secrets in files that other users can read, as libpq does but pgx does not: it takes a password
// from the file of passwords out of config and returns a warning, and returns an error for a key. In addition to libpq, it
// refuses the password of a service.
func checkSecrets(config *pgx.ConnConfig, value string) (warning string, err error) {
	settings, service := effectiveSettings(value)
	if service["password"]+service["sslpassword"] != "" {
		if err := secretfile.CheckKey(settings["servicefile"]); err != nil {
			return "", fmt.Errorf("the service file %w", err)
		}
	}
	if usesKey(config) {
		if err := secretfile.CheckKey(settings["sslkey"]); err != nil {
			return "", fmt.Errorf("the private key %w", err)
		}
	}
	if settings["password"] == "" && config.Password != "" {
		if err := secretfile.CheckPasswords(settings["passfile"]); err != nil {
			config.Password = ""
			return fmt.Sprintf("warning: the password file %v: its passwords are not used", err), nil
		}
	}
	return "", nil
}

// effectiveSettings returns the settings that say where secrets are, as pgx finds them, and those of the service.
func effectiveSettings(value string) (settings, service map[string]string) {
	settings = map[string]string{"passfile": atHome(".pgpass"), "servicefile": atHome(".pg_service.conf"),
		"sslkey": atHome(".postgresql/postgresql.key")}
	for variable, name := range map[string]string{"PGPASSFILE": "passfile", "PGPASSWORD": "password", "PGSSLKEY": "sslkey",
		"PGSERVICE": "service", "PGSERVICEFILE": "servicefile"} {
		if text := os.Getenv(variable); text != "" {
			settings[name] = text
		}
	}
	given := settingsOf(value)
	maps.Copy(settings, given)
	service = serviceSettings(settings["servicefile"], settings["service"])
	maps.Copy(settings, service)
	maps.Copy(settings, given)
	return settings, service
}

// usesKey reports whether a private key was read. Each host may have TLS or not.
func usesKey(config *pgx.ConnConfig) bool {
	uses := config.TLSConfig != nil && len(config.TLSConfig.Certificates) > 0
	for _, other := range config.Fallbacks {
		uses = uses || other.TLSConfig != nil && len(other.TLSConfig.Certificates) > 0
	}
	return uses
}

// serviceSettings returns the settings of a service, or none if there is no such service.
func serviceSettings(path, name string) map[string]string {
	if name == "" {
		return nil
	}
	file, err := pgservicefile.ReadServicefile(path)
	if err != nil {
		return nil
	}
	service, err := file.GetService(name)
	if err != nil {
		return nil
	}
	return service.Settings
}

// atHome returns the path of a file in the home directory, where pgx looks for it.
func atHome(file string) string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, file)
}

// settingsOf returns the settings of a connection string that pgx accepts, as pgx reads them: the last of several counts.
// Of a URL it returns those after the question mark, and the password.
func settingsOf(value string) map[string]string {
	found := map[string]string{}
	rest, isURL := afterScheme(value)
	if !isURL {
		for _, pair := range keywordAndValue.FindAllStringSubmatch(value, -1) {
			found[pair[1]] = escaped.ReplaceAllString(pair[2]+pair[3], "$1")
		}
		return found
	}
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' {
		if _, password, _ := strings.Cut(rest[:i], ":"); password != "" {
			found["password"] = password
		}
		rest = rest[i+1:]
	}
	_, query, _ := strings.Cut(rest, "?")
	for pair := range strings.SplitSeq(query, "&") {
		name, text, _ := strings.Cut(pair, "=")
		text, err := url.PathUnescape(strings.TrimSpace(text))
		if err == nil { // else pgx has refused it
			found[name] = text
		}
	}
	return found
}

// keywordAndValue matches one pair after another, so that what a quoted value contains is taken for no pair.
var keywordAndValue = regexp.MustCompile(`(?s)([^\s=]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s\\]|\\.)*))`)

var escaped = regexp.MustCompile(`(?s)\\(.)`)
