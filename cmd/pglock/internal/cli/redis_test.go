package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// onRedis prepares pglock run for servers of Redis.
func onRedis(t testing.TB, urls []string, args ...string) *process {
	t.Helper()
	all := []string{"run"}
	for _, url := range urls {
		all = append(all, "--redis", url)
	}
	return command(t, nil, append(all, args...)...)
}

func TestRedisRunOnRedisExcludesOthers(t *testing.T) {
	t.Parallel()
	one := testenv.NewRedis(t)
	var three []string
	for range 3 {
		three = append(three, testenv.NewRedis(t).URL())
	}
	cluster, sentinel := testenv.NewRedisCluster(t, 3), testenv.NewRedisSentinel(t)
	for name, urls := range map[string][]string{
		"one server": {one.URL()},
		"Redlock":    three,
		"a Cluster":  {"redis://" + cluster[0].Addr() + "?addr=" + cluster[1].Addr()},
		"Sentinel":   {"redis://" + sentinel.Sentinels[0].Addr() + "?master_name=" + sentinel.Name},
	} {
		t.Run(name, func(t *testing.T) {
			const processes = 8
			counter, marks := filepath.Join(t.TempDir(), "counter"), t.TempDir()
			must.Succeed(t, os.WriteFile(counter, []byte("0\n"), 0o600))
			var started []*process
			for range processes {
				started = append(started, onRedis(t, urls, "-w", "60", "counter", "--",
					"sh", "-c", increment, "sh", counter, marks, "1").start())
			}
			for _, p := range started {
				wantCode(t, p.end(), 0)
			}
			if got, err := os.ReadFile(counter); err != nil || strings.TrimSpace(string(got)) != fmt.Sprint(processes) {
				t.Errorf("the counter is %s, %v; want %d", got, err, processes)
			}
		})
	}
}

func TestRedisExitCodesOnRedis(t *testing.T) {
	t.Parallel()
	server := testenv.NewRedis(t, "requirepass s3cret")
	url := "redis://:s3cret@" + server.Addr()
	holder := onRedis(t, []string{url}, "held", "--", "sh", "-c", "echo started; exec sleep 60").start()
	holder.waitForOutput("started")
	for name, test := range map[string]struct {
		urls []string
		args []string
		code int
		says string
	}{
		"success":          {[]string{url}, []string{"k", "--", "true"}, 0, ""},
		"with a fence":     {[]string{url}, []string{"k", "--", "sh", "-c", `test "$PGLOCK_FENCE" -gt 0`}, 0, ""},
		"held":             {[]string{url}, []string{"-n", "held", "--", "true"}, 75, `lock "held" not acquired: held by token`},
		"held, waited":     {[]string{url}, []string{"-w", "0.1", "held", "--", "true"}, 75, "not acquired after"},
		"unreachable":      {[]string{"redis://:s3cret@127.0.0.1:1"}, []string{"k", "--", "true"}, 69, "127.0.0.1:1"},
		"a wrong password": {[]string{"redis://:s3cret-not@" + server.Addr()}, []string{"k", "--", "true"}, 69, "WRONGPASS"},
		"no Sentinels":     {[]string{"redis://127.0.0.1:1?master_name=x"}, []string{"k", "--", "true"}, 69, "all sentinels"},
		"malformed":        {[]string{"redis://u:s3cret/x@" + server.Addr()}, []string{"k", "--", "true"}, 64, "malformed Redis URL"},
		"another scheme":   {[]string{"http://:s3cret@x"}, []string{"k", "--", "true"}, 64, "malformed Redis URL"},
		"two":              {[]string{url, "redis://localhost:1"}, []string{"k", "--", "true"}, 64, "pglock: --redis: two servers cannot form a majority: give one, or at least 3"},
		"a lease":          {[]string{url}, []string{"--lease", "1ms", "k", "--", "true"}, 64, "pglock: --lease 1ms: the lease must be between 1s and 24h0m0s"},
		"with --dsn":       {[]string{url}, []string{"-d", "host=x", "k", "--", "true"}, 64, "contradicts --dsn"},
	} {
		t.Run(name, func(t *testing.T) {
			got := onRedis(t, test.urls, test.args...).run()
			wantCode(t, got, test.code)
			if !strings.Contains(got.stderr, test.says) || strings.Contains(got.stdout+got.stderr, "s3cret") {
				t.Errorf("stderr is %q, want %q and no password", got.stderr, test.says)
			}
			if strings.Contains(got.stderr, "redis: 20") {
				t.Errorf("go-redis' log is among what it said: %q", got.stderr)
			}
		})
	}
}

func TestRedisOfAReplicaNoFlagIsAdvised(t *testing.T) {
	t.Parallel()
	primary := testenv.NewRedis(t)
	replica := testenv.NewRedis(t, fmt.Sprintf("replicaof 127.0.0.1 %d", primary.Port()))
	r := onRedis(t, []string{replica.URL()}, "k", "--", "true").run()
	wantCode(t, r, 69)
	wantText(t, r.stderr, "taken on the primary")
	if strings.Contains(r.stderr, "--allow") {
		t.Errorf("it advises a flag for PostgreSQL: %s", r.stderr)
	}
}

func TestRedisALostLockOnRedisEndsTheCommand(t *testing.T) {
	t.Parallel()
	server := testenv.NewRedis(t)
	p := onRedis(t, []string{server.URL()}, "--lease", "1", "k", "--", "sh", "-c", "echo started; exec sleep 60").start()
	p.waitForOutput("started")
	server.Must(t, "FLUSHALL")
	got := p.end()
	wantCode(t, got, 70)
	if !strings.Contains(got.stderr, "forgotten") {
		t.Errorf("stderr is %q", got.stderr)
	}
}

// Arguments can be read by every user of the machine, a file and the environment cannot.
func TestRedisURLsNeedNotBeArguments(t *testing.T) {
	t.Parallel()
	server := testenv.NewRedis(t, "requirepass s3cret")
	url := "redis://:s3cret@" + server.Addr()
	file, empty := filepath.Join(t.TempDir(), "urls"), filepath.Join(t.TempDir(), "empty")
	must.Succeed(t, os.WriteFile(file, []byte("\n"+url+"\n"), 0o600))
	must.Succeed(t, os.WriteFile(empty, nil, 0o600))
	open := filepath.Join(t.TempDir(), "open")
	must.Succeed(t, os.WriteFile(open, []byte(url), 0o600))
	must.Succeed(t, os.Chmod(open, 0o644))
	variable := []string{"PGLOCK_REDIS_URL=" + url, "DATABASE_URL=postgres://127.0.0.1:1/nowhere"}
	onServer := []string{"sh", "-c", "test -n \"$PGLOCK_FENCE\""}
	wantCode(t, command(t, variable, append([]string{"run", "a", "--"}, onServer...)...).run(), 0)
	wantCode(t, command(t, nil, append([]string{"run", "--redis-file", file, "a", "--"}, onServer...)...).run(), 0)
	for _, args := range [][]string{
		{"--redis-file", empty}, {"--redis-file", empty + " not there"}, {"--redis-file", file, "--redis", url}, {"--redis-file", open},
		{"--redis-file", file, "--dsn", "postgres://127.0.0.1:1/nowhere"},
	} {
		r := command(t, nil, append(append([]string{"run"}, args...), "a", "--", "true")...).run()
		wantCode(t, r, 64)
		if strings.Contains(r.stderr, "s3cret") {
			t.Errorf("the password is shown: %s", r.stderr)
		}
	}
	wantCode(t, command(t, variable, "run", "--dsn", "postgres://127.0.0.1:1/nowhere", "a", "--", "true").run(), 69)
	r := command(t, []string{"PGLOCK_REDIS_URL=redis://:s3cret@%"}, "run", "a", "--", "true").run()
	wantCode(t, r, 64)
	wantText(t, r.stderr, "PGLOCK_REDIS_URL")
	if strings.Contains(r.stderr, "s3cret") {
		t.Errorf("the password is shown: %s", r.stderr)
	}
}
