package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock"
)

// connectTimeout is how long a host may take to answer if connect_timeout is not set, and hostsTimeout how long all together if
// there are several: the next one is reached within lookTime.
const (
	connectTimeout = 10 * time.Second
	hostsTimeout   = 4 * time.Second
)

// dsn holds the flags that name the database, and the roles whose schema may be used there. All commands share them.
type dsn struct {
	value   string
	trusted []string
	wait    seconds // for a server that does not answer yet
	name    string  // the argument DATABASE of a command, as psql has it
	keep    int32   // how many connections the pool keeps open, from its beginning
}

func (d *dsn) addTo(flags *pflag.FlagSet) {
	flags.StringVarP(&d.value, "dsn", "d", "",
		"the database, a `URL`, keyword=value pairs or a name (default $DATABASE_URL, or what psql uses)")
	flags.Var(&d.wait, "server-wait", "wait up to `duration` for a server that is starting")
	flags.StringArrayVar(&d.trusted, "trust-owner", nil,
		"use schema pglock also if this `ROLE` owns it: its code may run with your rights")
}

// addDatabaseArgument reads the name of a database from the arguments, as psql does.
func (d *dsn) addDatabaseArgument(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.Flags().Changed("dsn") {
		return misuse(cmd, "expected only one of --dsn and the database %q", args[0])
	}
	if args[0] == "" {
		return misuse(cmd, "the name of the database is empty")
	}
	d.name = args[0]
	return nil
}

// connString returns the connection string of the bare name of a database, if there is one.
func (d *dsn) connString() (value string, ok bool) {
	name := d.name
	if name == "" && isName(d.value) {
		name = strings.TrimSpace(d.value)
	}
	if name == "" {
		return "", false
	}
	return "dbname=" + name, true
}

// isName reports whether a text is the bare name of a database, and neither a URL nor keyword=value pairs.
func isName(text string) bool {
	return databaseName.MatchString(strings.TrimSpace(text))
}

// databaseName matches text that can only be a name. Other text may be a connection string with a password in it.
var databaseName = regexp.MustCompile(`^[\pL\pN_][\pL\pN_.$-]*$`)

// database is the database that a command connects to.
type database struct {
	config *pgxpool.Config
	// target names it in messages, without the password.
	target string
	// trusted are additional roles whose schema may be used.
	trusted []string
	keep    int32 // [dsn]
	// flags are the flags that name it and the trusted owners, with a space before each, for commands that users copy. They
	// have no password.
	flags string
}

// resolve returns the database that the flags name. It connects only to wait for a server that is starting.
func (d *dsn) resolve(cmd *cobra.Command) (database, error) {
	source, value := "--dsn", strings.TrimSpace(d.value)
	if cmd.Flags().Changed("dsn") && value == "" { // most likely an unset variable, which must not select another server
		return database{}, misuse(cmd, "--dsn is empty (leave it out to use DATABASE_URL, or what psql uses)")
	}
	if d.name != "" && !isName(d.name) {
		source, value, d.name = "the database", d.name, ""
	}
	other := ""
	if located, ok := d.connString(); ok {
		value = located
		if os.Getenv("DATABASE_URL") != "" { // another database of that server
			value, other = "", cmp.Or(d.name, strings.TrimSpace(d.value))
		}
	}
	if value == "" {
		source, value = "DATABASE_URL", strings.TrimSpace(os.Getenv("DATABASE_URL"))
	}
	config, err := parse(value)
	if err == nil && other != "" {
		config.ConnConfig.Database = other
	}
	if err != nil {
		if value == "" {
			source = "connection settings"
		}
		return database{}, misuse(cmd, "%s: %w", source, err)
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
		if n := len(addresses(config.ConnConfig)); n > 1 {
			config.ConnConfig.ConnectTimeout = hostsTimeout / time.Duration(n)
		}
	}
	if slices.Contains(d.trusted, "") {
		return database{}, misuse(cmd, "--trust-owner is empty")
	}
	ping := func(ctx context.Context) error { return answers(ctx, config.ConnConfig) }
	if ctx := cmd.Context(); d.wait > 0 && !d.await(ctx, ping) && ctx.Err() != nil {
		return database{}, context.Cause(ctx)
	}
	return database{config: config, target: target(config.ConnConfig), flags: d.words(config.ConnConfig), trusted: d.trusted, keep: d.keep}, nil
}

var (
	errURL = errors.New("malformed URL (want postgres://user:password@host:port/database, where @ / : ? and % in user " +
		"and password are written %40 %2F %3A %3F and %25)")
	errPairs = errors.New("neither a postgres:// URL nor keyword=value pairs such as \"host=db1 dbname=shop\" " +
		"(values with spaces must be in single quotes)")
)

// parse parses a connection string. The error for a malformed one contains only what cannot be part of the password,
// since the parser may take the password for something else.
func parse(value string) (*pgxpool.Config, error) {
	kind := errPairs
	if rest, ok := afterScheme(value); ok {
		kind = errURL
		if misleading(rest) {
			return nil, errURL
		}
	}
	config, err := pgxpool.ParseConfig(value)
	if err != nil {
		return nil, withoutInput(err, kind)
	}
	if err := adoptLibpq(config.ConnConfig); err != nil {
		return nil, err
	}
	for name := range config.ConnConfig.RuntimeParams {
		if !parameterName.MatchString(name) {
			return nil, kind
		}
	}
	config.ConnConfig.RuntimeParams["client_encoding"] = "UTF8" // texts of other sessions may have any character
	config.ConnConfig.OnNotification = dropNotification
	trust.PinSearchPath(&config.ConnConfig.Config)
	return config, nil
}

// dropNotification keeps pgx from collecting them.
func dropNotification(*pgconn.PgConn, *pgconn.Notification) {}

// afterScheme returns a URL without its scheme, and reports whether value is one.
func afterScheme(value string) (rest string, ok bool) {
	scheme, rest, ok := strings.Cut(value, "://")
	return rest, ok && (scheme == "postgres" || scheme == "postgresql")
}

// misleading reports whether the user or password of a URL contains an @ or /, so that a part of the password would be
// taken for the host or the database. rest is the URL without its scheme.
func misleading(rest string) bool {
	rest, _, _ = strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	return strings.Count(authority, "@") > 1 || strings.Contains(path, "@") && !strings.Contains(authority, "@")
}

// parameterName matches the names of the server's parameters. pgx takes every unknown keyword for one, even half of a
// URL with an unknown scheme.
var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// withoutInput returns pgx's error for a string that cannot be parsed, without the string. If pgx could not even
// split it, only the kind of string is named.
func withoutInput(err, kind error) error {
	malformed, ok := errors.AsType[*pgconn.ParseConfigError](err)
	if !ok {
		return kind
	}
	quiet := *malformed
	quiet.ConnString = ""
	reason := strings.TrimPrefix(sqlstate.WithoutKeys(&quiet).Error(), "cannot parse ``: ")
	if strings.HasPrefix(reason, "failed to parse as ") {
		return kind
	}
	return errors.New(reason)
}

// target returns a database like the end of a URL.
func target(config *pgx.ConnConfig) string {
	name := cmp.Or(config.Database, config.User) // the server's default
	return fmt.Sprintf("%s@%s/%s", config.User, strings.Join(addresses(config), ","), name)
}

// addresses returns all hosts and ports of a connection string, since only a connection shows which one
// answers.
func addresses(config *pgx.ConnConfig) []string {
	all := []string{address(config.Host, config.Port)}
	for _, other := range config.Fallbacks { // a host is repeated for each way to connect to it, such as without TLS
		if another := address(other.Host, other.Port); !slices.Contains(all, another) {
			all = append(all, another)
		}
	}
	return all
}

func address(host string, port uint16) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

// pool returns a pool that dials on first use. Its statements are not prepared under names, which
// transaction poolers may not know.
func (d database) pool(ctx context.Context, application string) (*pgxpool.Pool, error) {
	config := d.config.Copy()
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = application
	}
	if config.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeSimpleProtocol {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	config.AfterConnect = firstAnswer
	config.MinConns = min(d.keep, config.MaxConns)
	config.MaxConnLifetime = math.MaxInt64 // if the server is full by then, there is no other
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, d.failed(err)
	}
	return pool, nil
}

// withPool calls do with connections to the database, of which args may have the name, and a context that ends with a signal.
func (d *dsn) withPool(cmd *cobra.Command, args []string, application string,
	do func(context.Context, database, *pgxpool.Pool) error) error {
	if err := d.addDatabaseArgument(cmd, args); err != nil {
		return err
	}
	db, err := d.resolve(cmd)
	if err != nil {
		return err
	}
	_, err = job.While(cmd.Context(), job.Catch(), func(ctx context.Context) (struct{}, error) {
		pool, err := db.pool(ctx, application)
		if err != nil {
			return struct{}{}, err
		}
		defer closeSoon(pool)
		return struct{}{}, do(ctx, db, pool)
	})
	return err
}

// unlessStopped returns err, or nil if a signal ended a command that ends in no other way.
func unlessStopped(err error) error {
	if _, stopped := errors.AsType[*job.Stopped](err); stopped {
		return nil
	}
	return err
}

// closeSoon closes a pool, but does not wait for a server that does not answer.
func closeSoon(pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(200 * time.Millisecond):
	}
}

// lookTime bounds a look at the server, with connecting to it. Monitoring systems give up after ten seconds.
const lookTime = 4500 * time.Millisecond

// inTime calls look with a context that ends after lookTime, and says so.
func inTime[T any](ctx context.Context, look func(context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found, err := look(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("no answer within %v (the server hangs or is stopped, a firewall drops packets, or a pooler has no session for "+
			"this client; on the server see its log, and ps, where state T is stopped and D waits for a disk): %w", lookTime, err)
	}
	return found, err
}

// firstAnswer has a new connection answer once. A pooler accepts connections for which it has no session, and then they wait.
func firstAnswer(ctx context.Context, conn *pgx.Conn) error {
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := conn.Ping(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w (connected, but no answer within %v: the server hangs, or a pooler has no session for this client: "+
			"see SHOW POOLS on its console)", err, answerTimeout)
	}
	return err
}

// checkTrusted refuses roles that do not exist. Other errors show up later.
func (d database) checkTrusted(ctx context.Context, pool *pgxpool.Pool) error {
	if len(d.trusted) == 0 {
		return nil
	}
	if _, err := trust.Look(ctx, pool, d.trusted); errors.Is(err, trust.ErrUnknownRole) {
		return d.failed(fmt.Errorf("--trust-owner: %w", err))
	}
	return nil
}

// failed adds the database to an error.
func (d database) failed(err error) error { return &targetError{d.target, err} }

type targetError struct {
	target string
	err    error
}

func (e *targetError) Error() string {
	text := strings.TrimPrefix(strings.TrimPrefix(e.err.Error(), program), "monitor: ") // users do not know packages
	_, connecting := errors.AsType[*pgconn.ConnectError](e.err)
	switch {
	case connecting && sqlstate.Denied(e.err) && !errors.Is(e.err, pglock.ErrDenied): // ErrDenied says so itself
		text += " (" + sqlstate.DeniedAdvice + ")"
	case sqlstate.Of(e.err) == sqlstate.TooManyConnections:
		text += " (connections may be left that are reserved for superusers and, from PostgreSQL 16 on, for members of " +
			"pg_use_reserved_connections: with one of these pglock monitor says who holds the others up. If " +
			"none is left, SIGTERM, never SIGKILL, to an idle backend on the server's host makes room)"
	case connecting && sqlstate.Of(e.err) == sqlstate.FeatureNotSupported: // MULE_INTERNAL has no conversion to UTF-8
		text += " (pglock needs a database whose text converts to UTF-8: from such a one pglock monitor shows this one too)"
	}
	return e.target + ": " + oneLine(shorttext.Message(text))
}

func (e *targetError) Unwrap() error { return e.err }

// oneLine joins the lines of an error. A connection error has a line for each attempt: for each address, with and without
// TLS. If the server has no TLS and another attempt went further, only that one is of interest.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	attempts := slices.Clone(lines)
	lines = slices.DeleteFunc(lines, func(line string) bool {
		address, refused := strings.CutSuffix(line, " tls error: server refused TLS connection")
		return refused && slices.ContainsFunc(attempts, func(other string) bool {
			return other != line && strings.HasPrefix(other, address)
		})
	})
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}
