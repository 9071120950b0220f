package cli_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// The error for a connection string, however wrong, must not contain any part of its password.
func TestConnectionAPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	for dsn, code := range map[string]int{
		// Nothing answers there.
		"postgres://u:s3cret@127.0.0.1:1/x":               69,
		"host=127.0.0.1 port=1 user=u password=s3cret":    69,
		"host=127.0.0.1 port=1 user=u password='s3 cret'": 69,
		"postgres://u@127.0.0.1:1/x?password=s3cret":      69,
		"postgres://u:s3cret@no-such-host.invalid/x":      69,
		"postgres://u:s3?cret@127.0.0.1:1/x":              69,
		// Not a connection string.
		"postgres://u:s3cret@h:port/x":                 64,
		"postgres://u:s3cret@h/x?sslmode=perhaps":      64,
		"postgres://u:s3cret@h/x?connect_timeout=a":    64,
		"postgres://u:s3cret@h/x?pool_max_conns=many":  64,
		"postgres://u:s3cret%zz@h/x":                   64,
		"postgres://u:s3/cret@h/x":                     64,
		"postgres://u:3/s3cret@127.0.0.1:1/x":          64,
		"postgres://u:s3@cret@127.0.0.1:1/x":           64,
		"postgresql+asyncpg://u:s3cret@h/x?a=b":        64,
		"postgrse://u:s3cret@h/x?sslmode=disable":      64,
		"jdbc:postgresql://h/x?user=u&password=s3cret": 64,
		"u:s3cret@h/x":                                  64,
		"host=h password=s3cret port":                   64,
		"host=h password='s3cret":                       64,
		"host=h password = 's3cret":                     64,
		"host=h password=s3 cret":                       64,
		"host=h password=s3cret port=many":              64,
		"host=h password=s3cret sslmode=perhaps":        64,
		"host=h password=s3cret sslkey=/x sslcert=/y":   64,
		"host=h password=s3cret service=no-such":        64,
		"host=h password=s3cret pool_max_conns=many":    64,
		"host=h password=s3cret target_session_attrs=a": 64,
	} {
		r := command(t, nil, "run", "--verbose", "--dsn", dsn, "k", "--", "true").run()
		wantCode(t, r, code)
		wantNoSecret(t, r)
	}
	for _, dsn := range []string{"postgres://u:s3cret@127.0.0.1:1/x", "host=h password=s3cret port"} { // the others parse them in the same place
		wantNoSecret(t, command(t, []string{"DATABASE_URL=" + dsn}, "monitor", "--once").run())
		wantNoSecret(t, command(t, nil, "migrate", "version", "-d", dsn).run())
	}
}

// testDatabase is the name of a test's database, which ends with random text.
var testDatabase = regexp.MustCompile(`pglock_[a-z0-9_]+_[a-z2-7]{12}`)

func wantNoSecret(t *testing.T, r result) {
	t.Helper()
	output := testDatabase.ReplaceAllString(r.stdout+r.stderr, "")
	for _, part := range []string{"s3", "cret"} {
		if strings.Contains(output, part) {
			t.Errorf("a part of the password is in\n%s%s", r.stdout, r.stderr)
		}
	}
	if r.stderr == "" {
		t.Error("there is no message")
	}
}

func TestConnectionAWrongPassword(t *testing.T) {
	t.Parallel()
	target, err := url.Parse(testenv.Database(t).Role(t, "pglock_poor"))
	must.Succeed(t, err)
	user := target.User.Username()
	target.User = url.UserPassword(user, "s3cret")
	for _, args := range [][]string{{"run", "-v", "k", "--", "true"}, {"monitor"}, {"doctor"}, {"migrate", "up"}} {
		r := command(t, []string{"DATABASE_URL=" + target.String()}, args...).run()
		wantCode(t, r, 69)
		wantNoSecret(t, r)
		wantText(t, r.stderr, user+"@", "password authentication failed")
		if !strings.Contains(r.stderr, "(check the role, its password, ") || strings.Contains(r.stderr, "tls error") {
			t.Errorf("%q says %s", args, r.stderr)
		}
	}
}

func TestConnectionADatabaseThatDoesNotExist(t *testing.T) {
	t.Parallel()
	target, err := url.Parse(testenv.Database(t).ConnString())
	must.Succeed(t, err)
	target.Path = "/no_such_database"
	for _, args := range [][]string{{"run", "k", "--", "true"}, {"monitor"}, {"doctor"}, {"migrate", "version"}} {
		r := command(t, []string{"DATABASE_URL=" + target.String()}, args...).run()
		wantCode(t, r, 69)
		wantText(t, r.stderr, "does not exist", "the name of the database")
	}
}

func TestConnectionAnUnknownParameterHasNothingToDoWithTheSearchPath(t *testing.T) {
	t.Parallel()
	target, err := url.Parse(testenv.Database(t).ConnString())
	must.Succeed(t, err)
	query := target.Query()
	query.Set("passwrd", "x")
	target.RawQuery = query.Encode()
	r := command(t, []string{"DATABASE_URL=" + target.String()}, "monitor", "--once").run()
	wantCode(t, r, 69)
	wantText(t, r.stderr, `"passwrd"`)
	if strings.Contains(r.stderr, "search_path") {
		t.Errorf("it says %s", r.stderr)
	}
}

func TestConnectionWhereTheConnectionComesFrom(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	config := db.Config(t).ConnConfig
	wrong := "postgres://app:s3cret@127.0.0.1:1/nowhere"
	passwords := filepath.Join(t.TempDir(), "pgpass")
	must.Succeed(t, os.WriteFile(passwords, []byte("*:*:*:*:"+config.Password+"\n"), 0o600))
	services := filepath.Join(t.TempDir(), "services")
	must.Succeed(t, os.WriteFile(services, []byte("[shop]\nhost="+config.Host+"\ndbname="+db.Name()+"\n"), 0o600))
	port := fmt.Sprint(config.Port)
	variables := []string{"PGHOST=" + config.Host, "PGPORT=" + port, "PGUSER=" + config.User, "PGPASSFILE=" + passwords,
		"PGDATABASE=" + db.Name()}
	elsewhere := []string{"DATABASE_URL=" + strings.Replace(db.ConnString(), db.Name(), "postgres", 1)}
	for name, test := range map[string]struct {
		variables []string
		args      []string
	}{
		"a name in place of the one in DATABASE_URL": {elsewhere, []string{db.Name()}},
		"the same with -d":                           {elsewhere, []string{"-d", db.Name()}},
		"a URL":                                      {nil, []string{db.ConnString()}},
		"a part, as for psql":                        {variables, []string{"dbname='" + db.Name() + "'"}},
		"--dsn before DATABASE_URL":                  {[]string{"DATABASE_URL=" + wrong}, []string{"-d", db.ConnString()}},
		"DATABASE_URL before PG":                     {[]string{"DATABASE_URL=" + db.ConnString(), "PGHOST=127.0.0.1", "PGPORT=1"}, nil},
		"PG and the password file":                   {variables, nil},
		"the service file": {[]string{"PGSERVICE=shop", "PGSERVICEFILE=" + services, "PGPORT=" + port,
			"PGUSER=" + config.User, "PGPASSFILE=" + passwords}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := command(t, test.variables, append([]string{"monitor", "--once"}, test.args...)...).run()
			wantCode(t, r, 0)
			wantText(t, r.stdout, config.User+"@", "/"+db.Name())
		})
	}
	wantCode(t, command(t, nil, "monitor", "-d", "a", "b").run(), 64)
}
