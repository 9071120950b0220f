//go:build unix

package pgserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

const childEnv = "PGLOCK_PGSERVER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := serveUntilKilled(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// serveUntilKilled is a process that starts a server and gets no chance to stop it.
func serveUntilKilled() error {
	server, err := pgserver.Start(context.Background(), pgserver.Options{})
	if err != nil {
		return err
	}
	fmt.Println(server.ConnString("postgres"), server.SocketDir())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func TestAServerDoesNotOutliveAKilledProcess(t *testing.T) {
	t.Parallel()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"=1")
	child.Stderr = os.Stderr
	_, err := child.StdinPipe()
	must.Succeed(t, err)
	output, err := child.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, child.Start())
	var connString, dir string
	_, err = fmt.Fscanln(output, &connString, &dir)
	must.Succeed(t, err)
	conn, err := pgx.Connect(t.Context(), connString)
	must.Succeed(t, err)
	defer conn.Close(context.Background())

	must.Succeed(t, child.Process.Kill())

	if err := child.Wait(); err == nil {
		t.Error("the child was not killed")
	}
	waitUntil(t, "the directory is removed", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, fs.ErrNotExist)
	})
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the session has outlived the server's owner")
	}
	if conn, err := pgx.Connect(t.Context(), connString); err == nil {
		must.Succeed(t, conn.Close(t.Context()))
		t.Error("the server has outlived its owner")
	}
}

func TestAServerHasItsSettings(t *testing.T) {
	t.Parallel()
	want := `it's a "quoted\value` + "\nof two lines"
	server := start(t, map[string]string{"max_connections": "17", "cluster_name": "seventeen", "pglock.test": want})
	conn := connect(t, server)
	for name, want := range map[string]string{
		"max_connections": "17", "cluster_name": "seventeen", "pglock.test": want,
		"fsync": "off", "listen_addresses": "127.0.0.1", "server_encoding": "UTF8",
	} {
		var got string
		must.Succeed(t, conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got))
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestARefusedSettingIsNamedInTheError(t *testing.T) {
	t.Parallel()
	server, err := pgserver.Start(t.Context(),
		pgserver.Options{Settings: map[string]string{"max_connections": "many"}})
	if err == nil {
		must.Succeed(t, server.Stop())
		t.Fatal("the server started")
	}
	if !strings.Contains(err.Error(), `invalid value for parameter "max_connections": "many"`) {
		t.Errorf("the error does not show the server's own: %v", err)
	}
}

func TestAPasswordIsNeeded(t *testing.T) {
	t.Parallel()
	server := start(t, nil)
	config, err := pgx.ParseConfig(server.ConnString("postgres"))
	must.Succeed(t, err)
	right := config.Password
	config.Password = "wrong"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err == nil {
		must.Succeed(t, conn.Close(t.Context()))
		t.Fatal("a wrong password was accepted")
	}
	if !strings.Contains(err.Error(), "password authentication failed") {
		t.Errorf("the error is %v", err)
	}
	log, err := os.ReadFile(server.LogFile())
	must.Succeed(t, err)
	if strings.Contains(string(log), right) {
		t.Error("the log contains the password")
	}
}

func TestACopyOfATemplateIsAServerOfItsOwn(t *testing.T) {
	t.Parallel()
	template := filepath.Join(t.TempDir(), "made", "template")
	must.Succeed(t, pgserver.MakeTemplate(t.Context(), template))
	var servers [2]*pgserver.Server
	for i := range servers {
		server, err := pgserver.Start(t.Context(), pgserver.Options{
			Template: template, Settings: map[string]string{"max_connections": strconv.Itoa(20 + i)},
		})
		must.Succeed(t, err)
		t.Cleanup(func() { must.Succeed(t, server.Stop()) })
		servers[i] = server
	}
	_, err := connect(t, servers[0]).Exec(t.Context(), "CREATE TABLE only_in_the_first ()")
	must.Succeed(t, err)
	var there bool
	var connections string
	must.Succeed(t, connect(t, servers[1]).QueryRow(t.Context(), `SELECT to_regclass('only_in_the_first') IS NOT NULL,
		current_setting('max_connections')`).Scan(&there, &connections))
	if there || connections != "21" {
		t.Errorf("the second server has the first one's table: %t; it has max_connections %s", there, connections)
	}
}

func TestWithoutProgramsTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv(pgserver.BinariesVariable, t.TempDir())
	_, err := pgserver.Start(t.Context(), pgserver.Options{})
	if !errors.Is(err, pgserver.ErrNoBinaries) || !strings.Contains(err.Error(), pgserver.BinariesVariable) {
		t.Errorf("the error is %v", err)
	}
}

func start(t *testing.T, settings map[string]string) *pgserver.Server {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Options{Settings: settings})
	must.Succeed(t, err)
	t.Cleanup(func() {
		must.Succeed(t, server.Stop())
		must.Succeed(t, server.Stop())
		if _, err := os.Stat(server.SocketDir()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", server.SocketDir(), err)
		}
	})
	return server
}

func connect(t *testing.T, server *pgserver.Server) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.ConnString("postgres"))
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil && !conn.IsClosed() {
			t.Error(err)
		}
	})
	return conn
}

func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("timed out after a minute waiting until %s", what)
}
