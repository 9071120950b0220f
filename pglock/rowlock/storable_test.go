package rowlock

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// A host may be named by any bytes. The server refuses some of them in a text.
func TestTheServerStoresWhatIsStorable(t *testing.T) {
	t.Parallel()
	conn := testenv.Database(t).Connect(t)
	for text, want := range map[string]string{"db-1": "db-1", "é": "é", "h\xffst": "h?st", "h\x00st": "h?st", "\xc3": "?", "": ""} {
		var stored string
		must.Succeed(t, conn.QueryRow(t.Context(), "SELECT $1::text", pgx.QueryExecModeExec, storable(text)).Scan(&stored))
		if stored != want {
			t.Errorf("of %q the server keeps %q, want %q", text, stored, want)
		}
	}
}
