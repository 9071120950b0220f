package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// languagesVariable is the environment variable that asks for the programs in other languages.
const languagesVariable = "PGLOCK_TEST_LANGUAGES"

// languages says how the program of a language is run. Before that, commands of prepare are run in its folder.
var languages = map[string]struct {
	file         string
	prepare, run []string
}{
	"python": {file: "lock.py", run: []string{"/usr/bin/python3", "lock.py"}},
	"js":     {file: "lock.mjs", prepare: []string{"npm", "install", "pg@8.23.1"}, run: []string{"node", "lock.mjs"}},
	"java":   {file: "Lock.java", run: []string{"java", "-cp", "/usr/share/java/postgresql.jar", "Lock.java"}},
	"ruby":   {file: "lock.rb", run: []string{"ruby", "lock.rb"}},
}

// TestLanguagesTakeTheSameLock runs each program of docs/languages.md while a Locker holds the lock: it must wait for that
// lock, and get it when that is released.
func TestLanguagesTakeTheSameLock(t *testing.T) {
	if os.Getenv(languagesVariable) == "" {
		t.Skip("make test-languages runs this, with Python, Node.js, Java and Ruby")
	}
	page := read(t, filepath.Join(root, "docs", "languages.md"))
	for name, language := range languages {
		t.Run(name, func(t *testing.T) {
			block := regexp.MustCompile("(?s)```" + name + "\n(.*?)```").FindStringSubmatch(page)
			if block == nil {
				t.Fatal("the page has no program")
			}
			dir := t.TempDir()
			must.Succeed(t, os.WriteFile(filepath.Join(dir, language.file), []byte(block[1]), 0o600))
			if len(language.prepare) > 0 {
				prepare := exec.Command(language.prepare[0], language.prepare[1:]...)
				prepare.Dir = dir
				if out, err := prepare.CombinedOutput(); err != nil {
					t.Fatalf("%v: %v\n%s", language.prepare, err, out)
				}
			}
			program := exec.Command(language.run[0], language.run[1:]...)
			program.Dir = dir
			takesTheLock(t, program)
		})
	}
}

func takesTheLock(t *testing.T, program *exec.Cmd) {
	t.Helper()
	db := testenv.Database(t)
	pool := db.Pool(t)
	locker, err := pglock.New(pool)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, locker.Close(context.Background())) }()
	lock, err := locker.Lock(t.Context(), pglock.NewKey("invoice:42"))
	must.Succeed(t, err)
	defer func() { _ = lock.Unlock(t.Context()) }() // again, if all goes well

	// The password of such a role is hashed as JDBC demands, with at least 4,096 iterations.
	as, err := pgx.ParseConfig(db.Role(t, "program"))
	must.Succeed(t, err)
	address := fmt.Sprintf("%s:%d/%s", as.Host, as.Port, as.Database)
	program.Env = append(os.Environ(), "DATABASE_URL=postgres://"+as.User+":"+as.Password+"@"+address,
		"JDBC_URL=jdbc:postgresql://"+address+"?user="+as.User+"&password="+as.Password)
	var output lockedBuffer
	program.Stdout, program.Stderr = &output, &output
	must.Succeed(t, program.Start())
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	t.Cleanup(func() { _ = program.Process.Kill() })
	testenv.WaitUntil(t, "the program waits for the lock", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("it has ended with %v, and printed\n%s", err, strings.Join(output.lines(), "\n"))
		default:
		}
		waiters := must.One[int](t, pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		return waiters == 1
	})
	must.Succeed(t, lock.Unlock(t.Context()))
	if err := <-ended; err != nil || !matches([]string{"6688477336110245193"}, output.lines()) {
		t.Errorf("it ends with %v, and has printed\n%s", err, strings.Join(output.lines(), "\n"))
	}
}
