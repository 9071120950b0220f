package docs

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// program is a complete program of a page, and what the page says that it prints: the lines below "$ go run ." in the
// first console after it. "^C" there stands for a signal that ends it.
type program struct {
	name           string // of the page, and the number of its block
	code           string
	address        string            // what the program listens on in place of 127.0.0.1:8080
	files          map[string]string // that the page names above the program, beside main.go
	before, after  []string          // what it prints before and after the signal
	endsBySignal   bool
	database       *testenv.DB // or a new one
	needsTheSchema bool        // the page says before the program that it is to be installed
}

// elsewhere has the pages whose programs this test does not run, and why.
var elsewhere = map[string]string{
	"sqlc": "TestProgramDocsOfSqlcPrintWhatThePageSays makes its projects",
}

// TestProgramDocsPrintWhatThePagesSay builds each complete program of README.md and docs as it is printed there, runs
// it twice, and compares its output. The first time it has a database of its own, the second time one in which the
// programs of all pages before it have run, as they do for a reader. A program that runs until it is ended gets SIGINT
// the first time and SIGTERM the second time. Either way it must succeed, and what was in the database before must stay.
func TestProgramDocsPrintWhatThePagesSay(t *testing.T) {
	count, shared := 0, withTables(t)
	for _, page := range pages(t) {
		if elsewhere[pageName(page)] != "" {
			continue
		}
		for _, p := range programs(t, page) {
			count++
			t.Run(p.name, func(t *testing.T) {
				binary := build(t, p)
				t.Run("alone", func(t *testing.T) {
					p.database = withTables(t)
					p.run(t, binary, syscall.SIGINT)
					checkTables(t, p.database)
				})
				t.Run("after the others", func(t *testing.T) {
					p.database = shared
					p.run(t, binary, syscall.SIGTERM)
					checkTables(t, shared)
				})
			})
		}
	}
	if count < 8 {
		t.Errorf("there are only %d programs", count)
	}
}

// tables are what a reader may have, with names that examples like too.
var tables = []string{"accounts", "counter", "jobs", "orders", "seats", "users"}

// withTables returns a database with tables of one row each.
func withTables(t *testing.T) *testenv.DB {
	t.Helper()
	db := testenv.Database(t)
	conn := db.Connect(t)
	for _, table := range tables {
		_, err := conn.Exec(t.Context(), fmt.Sprintf("CREATE TABLE %[1]s (mine text); INSERT INTO %[1]s VALUES ('mine')", table))
		must.Succeed(t, err)
	}
	return db
}

// checkTables fails the test if a program has touched what withTables has made.
func checkTables(t *testing.T, db *testenv.DB) {
	t.Helper()
	conn := db.Connect(t)
	for _, table := range tables {
		var mine []string
		rows, err := conn.Query(t.Context(), "SELECT mine FROM "+table)
		if err == nil {
			mine, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err != nil || !slices.Equal(mine, []string{"mine"}) {
			t.Errorf("the program has changed table %s, which was there before: %q, %v", table, mine, err)
		}
	}
}

func pageName(page string) string { return strings.TrimSuffix(filepath.Base(page), ".md") }

var (
	isProgram = regexp.MustCompile(`(?m)^package main$`)
	namedFile = regexp.MustCompile("(?s)\n`([^`\n]+)`:\n\n```sql\n(.*?)```")
	goRun     = regexp.MustCompile("(?s)```console\n\\$ go run \\.\n(.*?)```")
)

// programs returns the complete programs of a page. Each must have a console.
func programs(t *testing.T, page string) (list []program) {
	t.Helper()
	text, end := read(t, page), 0
	for i, at := range goBlock.FindAllStringSubmatchIndex(text, -1) {
		code := text[at[2]:at[3]]
		if !isProgram.MatchString(code) {
			continue
		}
		name := fmt.Sprintf("%s_%d", pageName(page), i+1)
		p := program{name: name, code: code, address: freeAddress(t), files: map[string]string{}}
		for _, file := range namedFile.FindAllStringSubmatch(text[end:at[0]], -1) {
			p.files[file[1]] = file[2]
		}
		end = at[1]
		p.needsTheSchema = strings.Contains(text[:at[0]], "pglock migrate up")
		rest, _, _ := strings.Cut(text[end:], "```go\n")
		console := goRun.FindStringSubmatch(rest)
		if console == nil {
			t.Errorf("%s: below program %s there is no console with what `go run .` prints", page, p.name)
			continue
		}
		before, after, signal := strings.Cut(strings.ReplaceAll(console[1], "127.0.0.1:8080", p.address), "^C\n")
		p.endsBySignal = signal
		p.before, p.after = splitLines(before), splitLines(after)
		list = append(list, p)
	}
	return list
}

func splitLines(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

// build compiles a program. It is below this directory, so that the module's packages are found, and ./... passes over what begins
// with an underscore, which a killed test leaves.
func build(t *testing.T, p program) string {
	t.Helper()
	dir, err := os.MkdirTemp(".", "_program")
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, os.RemoveAll(dir)) })
	p.files["main.go"] = strings.ReplaceAll(p.code, "127.0.0.1:8080", p.address)
	for name, text := range p.files {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o644))
	}
	binary := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", binary, "./"+dir).CombinedOutput(); err != nil {
		t.Fatalf("build it: %v\n%s", err, out)
	}
	return binary
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	must.Succeed(t, listener.Close())
	return listener.Addr().String()
}

func (p program) run(t *testing.T, binary string, signal syscall.Signal) {
	var output lockedBuffer
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), p.environment(t)...)
	cmd.Env = append(cmd.Env, "LISTEN="+p.address) // if it does not name 127.0.0.1:8080 itself
	cmd.Stdout, cmd.Stderr = &output, &output
	must.Succeed(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if p.endsBySignal {
		testenv.WaitUntil(t, fmt.Sprintf("the program has printed %q", p.before), func() bool {
			return len(output.lines()) >= len(p.before)
		})
		must.Succeed(t, cmd.Process.Signal(signal))
	}
	err := <-ended
	if err != nil {
		t.Errorf("the program ends with %v", err)
	}
	if want := slices.Concat(p.before, p.after); !matches(want, output.lines()) {
		t.Errorf("the program has printed\n%s\nand the page has\n%s", strings.Join(output.lines(), "\n"), strings.Join(want, "\n"))
	}
}

// environment returns the addresses of the servers that a program uses.
func (p program) environment(t *testing.T) []string {
	t.Helper()
	db := p.database
	if db == nil {
		db = testenv.Database(t)
	}
	if p.needsTheSchema {
		pool, err := pgxpool.New(t.Context(), db.ConnString())
		must.Succeed(t, err)
		err = migrations.Up(t.Context(), pool)
		pool.Close()
		must.Succeed(t, err)
	}
	switch page, _, _ := strings.Cut(p.name, "_"); page {
	case "rowlock":
		return []string{"DATABASE_URL=" + testenv.PgBouncer(t, db, testenv.TransactionPooling)}
	case "redis":
		return []string{"REDIS_URL=" + testenv.RedisURL(t)}
	}
	return []string{"DATABASE_URL=" + db.ConnString()}
}

// varying are parts of lines that differ from run to run.
var varying = regexp.MustCompile(`\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d(\.\d+)?|\d+(\.\d+)?(ms|s)\b|\bpid \d+|…`)

// matches reports whether the lines of a page are those that were printed, except for times, durations and process IDs.
// What a page leaves out it writes as "…".
func matches(page, printed []string) bool {
	if len(page) != len(printed) {
		return false
	}
	for i, line := range page {
		var pattern strings.Builder
		pattern.WriteString("^")
		for line != "" {
			at := varying.FindStringIndex(line)
			if at == nil {
				at = []int{len(line), len(line)}
			}
			pattern.WriteString(regexp.QuoteMeta(line[:at[0]]))
			pattern.WriteString(inPlaceOf(line[at[0]:at[1]]))
			line = line[at[1]:]
		}
		if !regexp.MustCompile(pattern.String() + "$").MatchString(printed[i]) {
			return false
		}
	}
	return true
}

// inPlaceOf returns the pattern of what may be printed in place of a varying part.
func inPlaceOf(part string) string {
	if part == "…" {
		return ".*"
	}
	return regexp.MustCompile(`\d+(\\\.\d+)?`).ReplaceAllString(regexp.QuoteMeta(part), `[\d.]+`)
}

// lockedBuffer collects what a process prints.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return splitLines(b.buf.String())
}
