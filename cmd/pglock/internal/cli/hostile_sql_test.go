package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// psql interprets backslashes, colons and backquotes, also on a line of SQL.
func TestHostilePrintedSQLMeansTheSameToPsql(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	executed := filepath.Join(t.TempDir(), "executed")
	touch := `\! touch ` + executed
	names := []string{touch, "\n" + touch + "\n", "'; " + touch, "';\n" + touch + "\n--", `\';` + "\n" + touch, "`touch " + executed + "`",
		":x :'x' :\"x\" :{?x}", `\gexec`, "'; SELECT 'touch' \\g |sh", "$$ /* -- $pglock$", "\x1b]0;\a\u202e\u2028\r\x7f", "=cmd|' /C calc'!A0"}
	r := command(t, nil, append([]string{"key", "-o", "json", "--"}, names...)...).run()
	wantCode(t, r, 0)
	var printed []map[string]any
	must.Succeed(t, json.Unmarshal([]byte(r.stdout), &printed))
	script, want := `\set x x`+"\n", ""
	for i, name := range names {
		script += fmt.Sprintf("BEGIN; %s;\nSELECT (classid::bigint << 32) | objid::bigint FROM pg_locks\n"+
			"WHERE pid = pg_backend_pid() AND locktype = 'advisory'; COMMIT;\n", printed[i]["transaction_by_name_sql"])
		want += fmt.Sprintf("\n%d\n", pglock.NewKey(name).Int64()) // a function that returns void, and the key
	}
	for _, name := range names {
		now := time.Now()
		gid := db.Name() + name
		conn := db.Connect(t)
		_, err := conn.Exec(t.Context(), "BEGIN")
		must.Succeed(t, err)
		_, err = conn.Exec(t.Context(), "PREPARE TRANSACTION "+quote(gid))
		must.Succeed(t, err)
		script += monitor.Session{GID: gid, PreparedAt: &now}.RollbackSQL() + ";\n"
	}
	script += "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database();\n"
	want += "0\n"
	binaries, err := pgserver.Find()
	must.Succeed(t, err)
	psql := exec.Command(filepath.Join(binaries.Dir, "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", db.ConnString())
	psql.Stdin = strings.NewReader(script)
	output, err := psql.CombinedOutput()
	if err != nil || string(output) != want {
		t.Errorf("psql: %v\n%s\nwant\n%s", err, output, want)
	}
	if _, err := os.Stat(executed); err == nil {
		t.Error("psql has executed a name")
	}
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
