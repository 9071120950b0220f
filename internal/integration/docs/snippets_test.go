// Package docs checks README.md and the pages of docs/: their Go code compiles, and their links work.
package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "github.com/go-co-op/gocron/v2" // the snippets use these two
	_ "github.com/robfig/cron/v3"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

const root = "../../.."

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// frame has the declarations that a snippet, if it is not a whole program, may use. It takes the snippet's functions,
// its statements, and the uses of the variables that they declare.
const frame = `package snippet

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/adapter/sqltx"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/once"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

var (
	_ = errors.Is
	_ = fmt.Println
	_ = hmac.New
	_ = hex.EncodeToString
	_ = io.ReadAll
	_ = json.NewEncoder
	_ = locktest.NewMemory
	_ = log.Fatal
	_ = rand.N[int]
	_ = migrations.Up
	_ = monitor.Take
	_ = once.New
	_ = pglock.New
	_ = ratelimit.New
	_ = redis.NewClient
	_ = redisfallback.New
	_ = semaphore.New
	_ = sha256.New
	_ = sql.Open
	_ = sqltx.LockTx
	_ = strconv.Itoa
	_ = time.Second
	_ http.Handler
	_ pgx.Tx
	_ *pgxpool.Pool
)

type Message struct{ ID string }

type Order struct{ ID int }

type server struct{ pool *pgxpool.Pool }

func (*server) insertOrder(context.Context, pgx.Tx, []byte) (Order, error) { return Order{}, nil }

func account(*http.Request) string { return "" }

func pay(context.Context, pgx.Tx, Message) error { return nil }

func look(context.Context, string) (string, bool) { return "", false }

func load(context.Context, string) (string, error) { return "", nil }

func thumbnail(context.Context, []byte) error { return nil }

%FUNCTIONS

func snippet(
	ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, locker *pglock.Locker, lock *pglock.Lock, limiter *ratelimit.Limiter,
	client redis.UniversalClient, job *schedule.Job, due time.Time, message Message, ip, uploaded string, photo, secret []byte,
) error {
%STATEMENTS
%USES
	return nil
}
`

var declaration = regexp.MustCompile(`(?m)^\t?(\w+(?:, \w+)*) := `)

// inFrame makes a whole file from a snippet.
func inFrame(code string) string {
	if strings.HasPrefix(code, "package ") || strings.Contains(code, "\npackage ") {
		return code
	}
	if strings.HasPrefix(code, "func ") {
		return strings.NewReplacer("%FUNCTIONS", code, "%STATEMENTS", "", "%USES", "").Replace(frame)
	}
	var uses strings.Builder
	for _, match := range declaration.FindAllStringSubmatch(code, -1) {
		for name := range strings.SplitSeq(match[1], ", ") {
			if name != "_" {
				fmt.Fprintf(&uses, "\t_ = %s\n", name)
			}
		}
	}
	return strings.NewReplacer("%FUNCTIONS", "", "%STATEMENTS", code, "%USES", uses.String()).Replace(frame)
}

// TestProgramDocsSnippetsCompile vets all snippets at once. It leaves out those that need another module: they begin with the
// comment "// nested module", or import generated packages of example.com.
func TestProgramDocsSnippetsCompile(t *testing.T) {
	dir, err := os.MkdirTemp(".", "_snippets") // see build
	must.Succeed(t, err)
	t.Cleanup(func() { must.Succeed(t, os.RemoveAll(dir)) })
	snippets := []string{"vet"} // by name, as ./... passes over what begins with an underscore
	for _, page := range pages(t) {
		for i, block := range goBlock.FindAllStringSubmatch(read(t, page), -1) {
			if strings.HasPrefix(block[1], "// nested module") || strings.Contains(block[1], `"example.com/`) {
				continue
			}
			name := fmt.Sprintf("%s_%d", strings.TrimSuffix(filepath.Base(page), ".md"), i+1)
			writeSnippet(t, filepath.Join(dir, name), block[1])
			snippets = append(snippets, "./"+filepath.Join(dir, name))
		}
	}
	if len(snippets) < 10 {
		t.Fatalf("there are only %d snippets", len(snippets))
	}
	if out, err := exec.Command("go", snippets...).CombinedOutput(); err != nil {
		t.Errorf("a snippet does not compile (the directory is the page and the number of the snippet): %v\n%s", err, out)
	}
}

func writeSnippet(t *testing.T, dir, code string) {
	t.Helper()
	must.Succeed(t, os.Mkdir(dir, 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "snippet.go"), []byte(inFrame(code)), 0o644))
}

// pages returns the paths of README.md, SKILL.md and every page in docs.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{filepath.Join(root, "README.md"), filepath.Join(root, "SKILL.md")}
	for _, folder := range []string{"docs", "docs/internals"} {
		found, err := filepath.Glob(filepath.Join(root, folder, "*.md"))
		must.Succeed(t, err)
		list = append(list, found...)
	}
	return list
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	must.Succeed(t, err)
	return string(text)
}
