package pglock_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// The sessions of a process carry one mark, whichever Locker opened them and however long its name is.
func TestSessionsOfAProcessHaveOneMark(t *testing.T) {
	db := testenv.Database(t)
	conn := db.Connect(t)
	marked := regexp.MustCompile(`^(.*) \(pglock ([0-9a-f]{8})\)$`)
	marks := map[string]bool{}
	for name, want := range map[string]string{
		"":                       "own",
		"billing":                "billing",
		strings.Repeat("b", 100): strings.Repeat("b", 45),
		strings.Repeat("é", 100): strings.Repeat("?", 45),
		strings.Repeat("語", 100): strings.Repeat("?", 45),
		"a\x7fb":                 "a?b",
	} {
		config := db.Config(t)
		config.ConnConfig.RuntimeParams["application_name"] = "own"
		var opts []pglock.Option
		if name != "" {
			opts = append(opts, pglock.WithApplicationName(name))
		}
		l, err := pglock.NewWithConfig(config, opts...)
		must.Succeed(t, err)
		lock := mustLock(t, l, pglock.NewKey("k"))
		var application string
		if err := conn.QueryRow(t.Context(), `select application_name from pg_stat_activity join pg_locks using (pid)
			where locktype = 'advisory' and datname = current_database() order by backend_start desc limit 1`).Scan(&application); err != nil {
			t.Fatal(err)
		}
		found := marked.FindStringSubmatch(application)
		if found == nil {
			t.Fatalf("%q has no mark", application)
		}
		marks[found[2]] = true
		if got := found[1]; got != want {
			t.Errorf("the sessions of %q are called %q", name, got)
		}
		mustUnlock(t, lock)
		closeWithinAMinute(t, l)
	}
	if len(marks) != 1 {
		t.Errorf("the process has the marks %v", marks)
	}
}
