// Package docs keeps README.md and the pages of docs/ true: their Go code compiles, and their links lead somewhere.
package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// frame is what a snippet that is no whole program may use without saying so.
const frame = `package snippet

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/redisfallback"
)

var (
	_ = errors.Is
	_ = fmt.Println
	_ = log.Fatal
	_ = time.Second
	_ pgx.Tx
	_ *pgxpool.Pool
	_ = migrations.Up
	_ = monitor.Take
	_ = pglock.New
	_ = locktest.NewMemory
	_ = redis.NewClient
	_ = redisfallback.New
)

func snippet(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, locker *pglock.Locker, lock *pglock.Lock) error {
%s
	return nil
}
`

// TestDocsSnippetsCompile vets all snippets at once. A snippet that needs a module of its own begins with the comment
// "// nested module" and is compiled there, as an example.
func TestDocsSnippetsCompile(t *testing.T) {
	// Below this directory, so that the module's own packages are found.
	dir, err := os.MkdirTemp(".", "snippets")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	count := 0
	for _, page := range pages(t) {
		for i, block := range goBlock.FindAllStringSubmatch(read(t, page), -1) {
			if strings.HasPrefix(block[1], "// nested module") {
				continue
			}
			name := fmt.Sprintf("%s_%d", strings.TrimSuffix(filepath.Base(page), ".md"), i+1)
			writeSnippet(t, filepath.Join(dir, name), block[1])
			count++
		}
	}
	if count < 10 {
		t.Fatalf("there are only %d snippets", count)
	}
	if out, err := exec.Command("go", "vet", "./"+dir+"/...").CombinedOutput(); err != nil {
		t.Errorf("a snippet does not compile (the directory is the page and the number of the snippet): %v\n%s", err, out)
	}
}

func writeSnippet(t *testing.T, dir, code string) {
	t.Helper()
	if !strings.HasPrefix(code, "package ") {
		code = strings.Replace(frame, "%s", code, 1)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "snippet.go"), []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
}

// pages returns the paths of README.md and of every page in docs.
func pages(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	return append(docs, filepath.Join(root, "README.md"))
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
