package pglock_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
)

// newProxy returns a network to the server of db that can be cut, and a configuration that connects through it.
func newProxy(t *testing.T, db *testenv.DB) (*testenv.Link, *pgxpool.Config) {
	t.Helper()
	cfg := db.Config(t)
	server := cfg.ConnConfig
	link, address := testenv.NewProxy(t, net.JoinHostPort(server.Host, strconv.Itoa(int(server.Port))))
	server.Host, server.Port, server.Fallbacks = address.IP.String(), uint16(address.Port), nil
	return link, cfg
}
