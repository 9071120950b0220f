package cli_test

import (
	"fmt"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// Every command passes over hosts that accept connections and send nothing.
func TestHostsThatAreSilentArePassedOver(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	server, silent := db.Config(t).ConnConfig, testenv.SilentServer(t)
	target := "DATABASE_URL=" + fmt.Sprintf("host=%s,%s port=%d,%d user=%s password='%s' dbname=%s",
		silent.IP, server.Host, silent.Port, server.Port, server.User, server.Password, server.Database)
	for _, args := range [][]string{
		{"migrate", "version"}, {"monitor", "--once"}, {"check", "--critical=1m"}, {"doctor"},
		{"run", "--tick", "@hourly", "k", "--", "true"},
	} {
		t.Run(fmt.Sprint(args[0], len(args)), func(t *testing.T) {
			t.Parallel()
			wantCode(t, command(t, []string{target}, args...).run(), 0)
		})
	}
	t.Run("serve", func(t *testing.T) {
		t.Parallel()
		scrape(command(t, []string{target}, "serve", "--listen", "127.0.0.1:0").start())
	})
}
