package monitor

import (
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

func TestKnownHashesOfTextAreThoseOfTheServer(t *testing.T) {
	conn := testenv.Database(t).Connect(t)
	texts := []string{"pg_partman run_maintenance", "日本語/注文", "é"}
	for n := range 40 {
		texts = append(texts, strings.Repeat("invoice:42/", 4)[:n])
	}
	for _, text := range texts {
		var (
			short int32
			long  int64
		)
		must.Succeed(t, conn.QueryRow(t.Context(), "SELECT hashtext($1), hashtextextended($1, 0)", text).Scan(&short, &long))
		if gotShort, gotLong := hashtext(text); gotShort != short || gotLong != long {
			t.Errorf("%q: got %d and %d, want %d and %d", text, gotShort, gotLong, short, long)
		}
	}
	if short, _ := hashtext("pg_partman run_maintenance"); short != -988976779 {
		t.Errorf("the key of pg_partman is %d", short)
	}
}
