package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// The view of a recording escapes the names of keys, programs and the file before it sends them to a terminal.
func TestHostileReplayOnATerminalOfHostileNamesIsHarmless(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	key := "k\n" + hostile
	lock := fmt.Sprintf("SELECT pg_advisory_lock(%d) /*%s*/", pglock.NewKey(key).Int64(), key)
	holder, waiter := db.Connect(t), db.Connect(t)
	_, err := holder.Exec(t.Context(), "SELECT set_config('application_name', $1, false)", "h"+hostile)
	must.Succeed(t, err)
	_, err = holder.Exec(t.Context(), lock)
	must.Succeed(t, err)
	file := filepath.Join(t.TempDir(), "f\n"+hostile)
	p := on(t, db, "monitor", "--record", file, "--record-queries", "--interval", "50ms").start()
	p.waitForOutput("recording ")
	awaitSnapshots(t, file)
	got := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(t.Context(), lock)
		got <- err
	}()
	db.WaitForWaiters(t, 1)
	awaitSnapshots(t, file)
	must.Succeed(t, holder.Close(t.Context()))
	must.Succeed(t, <-got)
	awaitSnapshots(t, file)
	p.signal(os.Interrupt)
	wantCode(t, p.end(), 0)
	wantHarmless(t, "the recorder", p.stderr.String())

	type step struct{ keys, says string } // a single word, since text that is already on the screen is not sent again
	for _, steps := range [][]step{{{"", "REPLAY"}, {"2", "SESSION"}, {"3", "APPLICATION"}, {"\r", "Esc"}}, {{"", "REPLAY"}, {"J", "passed"}}} {
		p = command(t, nil, "replay", file, "--interval", "50ms", "--key", key).onTerminal()
		for _, s := range steps {
			p.types(s.keys)
			p.waitForOutput(s.says)
		}
		p.types(ctrlC)
		wantCode(t, p.end(), 0)
		<-p.read
		text := p.stdout.String()
		wantText(t, text, `k\n\x1b]0;owned\a`)
		for _, harm := range []string{"\x1b]0;owned", "owned\x07", "\u202e"} {
			if strings.Contains(text, harm) {
				t.Errorf("the terminal is sent %q: %q", harm, text)
			}
		}
	}
}
