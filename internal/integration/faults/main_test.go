package faults_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/integration/histories"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

var scaleFlag = flag.String("scale", "0.001", "size of the campaign; 1 is the whole")

// scale is the value of scaleFlag.
var scale float64

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	scale, err = strconv.ParseFloat(*scaleFlag, 64) // a malformed flag.Float64 would print the usage of go test
	if err != nil || !(scale > 0 && scale <= 100) {
		_, _ = fmt.Fprintf(os.Stderr, "the scale %q is not a number above 0 and up to 100, such as 0.1\n", *scaleFlag)
		os.Exit(2)
	}
	redis.SetLogger(silent{})
	testenv.Main(m)
}

// scaled returns this campaign's share of whole, but no less than least.
func scaled(whole, least int) int { return max(int(math.Ceil(float64(whole)*scale)), least) }

type part struct {
	name, title string
	do          func(*testing.T, *faults.Tally)
}

var parts = []part{
	{"postgres/near", "PostgreSQL, silent loss, near", silentLossNear},
	{"postgres/far", "PostgreSQL, silent loss, far", silentLossFar},
	{"postgres/guarded", "PostgreSQL, guarded updates", guardedUpdates},
	{"postgres/unguarded", "the same without the guard", unguardedUpdates},
	{"rows/silent", "Rows behind a pooler, silent loss", rowsSilentLoss},
	{"rows/guarded", "Rows behind a pooler, guarded updates", rowsGuardedUpdates},
	{"rows/unguarded", "the same without the guard", rowsUnguardedUpdates},
	{"deadlocks", "Deadlocks of processes, sessions and rows", deadlocks},
	{"redis/one", "Redis, one node", redisOne},
	{"redis/sentinel", "Redis, Sentinel", redisSentinel},
	{"redis/cluster", "Redis, Cluster", redisCluster},
	{"redis/redlock", "Redis, Redlock of five", redlock},
}

// TestLongFaults is the campaign. Each part has its own servers. The parts of a small campaign, which waits most of the
// time, run at the same time, and those of a large one after each other.
func TestLongFaults(t *testing.T) {
	var mu sync.Mutex
	tallies := make([]*faults.Tally, len(parts))
	t.Run("parts", func(t *testing.T) {
		for i, p := range parts {
			t.Run(p.name, func(t *testing.T) {
				if scale < 0.05 {
					t.Parallel()
				}
				tally := &faults.Tally{Part: p.title}
				mu.Lock()
				tallies[i] = tally
				mu.Unlock()
				defer progress(tally)()
				start := time.Now()
				p.do(t, tally)
				tally.Took = time.Since(start)
			})
		}
	})
	fmt.Print("\n", faults.Table(slices.DeleteFunc(tallies, func(c *faults.Tally) bool { return c == nil })), "\n")
}

// progress prints how far a part is, every ten seconds.
func progress(tally *faults.Tally) (stop func()) {
	ended := make(chan struct{})
	var printer sync.WaitGroup
	printer.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Second):
				fmt.Println(tally)
			}
		}
	})
	return func() {
		close(ended)
		printer.Wait()
	}
}

// violation is a broken guarantee.
func violation(t *testing.T, tally *faults.Tally, format string, args ...any) {
	t.Helper()
	tally.Violations.Add(1)
	t.Errorf("VIOLATION: "+format, args...)
}

// check decides whether locks that exclude each other could have made the history, and keeps it if they could not.
func check(t *testing.T, tally *faults.Tally, what string, h *histories.History) {
	t.Helper()
	result, info := h.Check(time.Minute)
	if result == porcupine.Ok {
		return
	}
	picture, err := os.Create(filepath.Join(findings(t), fmt.Sprintf("%d.html", time.Now().UnixNano())))
	if err == nil {
		err = errors.Join(porcupine.Visualize(histories.Model, info, picture), picture.Close())
	}
	if err != nil {
		t.Error(err)
		return
	}
	violation(t, tally, "%s: the history of %d events is %s, see %s", what, h.Len(), result, picture.Name())
}

var findingsDirectory = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "pglock-faults-") })

// findings is the directory for the traces of violations.
func findings(t *testing.T) string {
	t.Helper()
	dir, err := findingsDirectory()
	must.Succeed(t, err)
	return dir
}

// keepLog copies the log of a server if the test has failed, before the server and its log go.
func keepLog(t *testing.T, path string) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		text, err := os.ReadFile(path)
		copied := filepath.Join(findings(t), filepath.Base(filepath.Dir(path))+".log")
		if err == nil {
			err = os.WriteFile(copied, text, 0o600)
		}
		t.Logf("the server's log is %s, %v", copied, err)
	})
}

// closeSoon closes a Locker that may have locks which are not unlocked any more.
func closeSoon(t *testing.T, l *pglock.Locker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	deadline, _ := ctx.Deadline()
	if err := l.Close(ctx); err != nil && time.Until(deadline) > time.Millisecond { // what has not ended by then is an error
		t.Error(err)
	}
}
