package trust_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/trust"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// The refusal is an error that no setting of the database can turn into a value: up to PostgreSQL 13 a setting may have
// any name with a dot. The names are short, since that of a setting is cut off at 63 bytes.
func TestTrustRefusesWhateverSettingsThereAre(t *testing.T) {
	db := testenv.Installed(t)
	tenant := user(connect(t, db.Role(t, "")))
	admin := db.Connect(t)
	execute(t, admin, "CREATE DOMAIN pglock.a AS int; ALTER DOMAIN pglock.a OWNER TO "+quote(tenant))
	setting := fmt.Sprintf(`pglock_untrusted["untrusted", "type pglock.a", %q]`, tenant)
	set := fmt.Sprintf("ALTER DATABASE %s SET %s = 'x'", quote(db.Name()), quote(setting))
	if _, err := admin.Exec(t.Context(), set); err != nil {
		t.Logf("the server refuses such a setting: %v", err)
	}
	conn := connect(t, db.ConnString())
	wantUntrusted(t, check(t, conn, nil), "type pglock.a", tenant)
	batch := &pgx.Batch{}
	trust.QueueLook(batch, trust.Owners{})
	if err := trust.Explain(conn.SendBatch(t.Context(), batch).Close()); !errors.Is(err, driver.ErrUntrusted) {
		t.Errorf("in a batch: %v", err)
	}
}
