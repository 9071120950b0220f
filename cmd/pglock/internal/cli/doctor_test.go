package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/doctor"
	"github.com/pglock-toolkit/pglock/internal/testenv"
)

func TestDoctorFailsWhenSomethingIsBadEnough(t *testing.T) {
	t.Parallel()
	db := testenv.On(t, testenv.NewServer(t, nil)) // others leave prepared transactions on the one they share
	for _, test := range []struct {
		options string
		failOn  string
		code    int
		worst   doctor.Level
	}{
		{"", "warning", 0, doctor.Note}, // client_connection_check_interval is off on every server,
		{"", "note", 78, doctor.Note},
		{"&default_transaction_isolation=serializable", "warning", 78, doctor.Warning},
		{"&default_transaction_isolation=serializable", "problem", 0, doctor.Warning},
	} {
		dsn := []string{"DATABASE_URL=" + db.ConnString() + test.options}
		r := command(t, dsn, "doctor", "--app", "--fail-on", test.failOn, "-o", "json").run()
		wantCode(t, r, test.code)
		var report doctor.Report
		if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
			t.Fatalf("%v in %s", err, r.stdout)
		}
		if report.Worst != test.worst || report.Database != db.Name() || len(report.Findings) < 10 {
			t.Errorf("the report is %+v", report)
		}
	}
}

func TestDoctorFindingsFitEightyColumns(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	poor := db.Role(t, "pglock_poor")
	r := command(t, []string{"DATABASE_URL=" + poor}, "doctor", "--verbose").run()
	wantText(t, r.stdout, "/"+db.Name(), "role pglock_poor", "note     ", "  why    ", "  do     ",
		"GRANT pg_read_all_stats TO", "ok       the server is a primary\n", " notes, ", " ok\n")
	for line := range strings.Lines(r.stdout) {
		statement := strings.HasSuffix(line, ";\n") || strings.Contains(line, "@")
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !statement {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
}

func TestDoctorNeedsAServer(t *testing.T) {
	t.Parallel()
	r := command(t, []string{"DATABASE_URL=postgres://u:s3cret@127.0.0.1:1/x"}, "doctor").run()
	wantCode(t, r, 69)
	wantNoSecret(t, r)
	for _, args := range [][]string{{"--fail-on", "ok"}, {"--output", "xml"}, {"now", "then"}} {
		wantCode(t, command(t, nil, append([]string{"doctor"}, args...)...).run(), 64)
	}
}
