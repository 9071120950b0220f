// Package readme keeps README.md true: its Go snippets compile.
package readme

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const readme = "../../README.md"

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// frame is what a snippet may use without saying so.
const frame = `package readme

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

func TestTheSnippetsCompile(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	blocks := goBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 3 {
		t.Fatalf("README.md has %d Go snippets", len(blocks))
	}
	for i, block := range blocks {
		// Below this directory, so that the module's own packages are found.
		dir, err := os.MkdirTemp(".", "snippet")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		source := strings.Replace(frame, "%s", block[1], 1)
		if err := os.WriteFile(filepath.Join(dir, "snippet.go"), []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("go", "vet", fmt.Sprintf("./%s", dir)).CombinedOutput()
		if err != nil {
			t.Errorf("snippet %d does not compile: %v\n%s\n%s", i+1, err, block[1], out)
		}
	}
}
