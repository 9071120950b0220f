package pglock_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestTxATransactionOnCockroachDBIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	var trips *txRoundTrips
	conn := txConnect(t, testenv.Database(t).ConnString(), func(config *pgx.ConnConfig) {
		trips = txCountRoundTrips(config)
		config.TLSConfig, config.Fallbacks = nil, nil
		dial := config.DialFunc
		config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return &cockroachConn{Conn: conn}, err
		}
	})
	tx := txBegin(t, conn)
	sent := trips.during(func() {
		for _, form := range txAllForms {
			err := form.lock(t.Context(), tx, pglock.NewKey("a"))
			if !errors.Is(err, pglock.ErrUnsupported) || !strings.Contains(err.Error(), "CockroachDB CCL v24.1.0") {
				t.Errorf("%s: the error is %v", form.name, err)
			}
		}
		batch := &pgx.Batch{}
		batch.Queue("SELECT 1")
		pglock.QueueLockTx(batch, pglock.NewKey("a"))
		results := conn.SendBatch(t.Context(), batch)
		if _, err := results.Exec(); !errors.Is(err, pglock.ErrUnsupported) {
			t.Errorf("a batch read by hand: the error is %v", err)
		}
		if err := results.Close(); !errors.Is(err, pglock.ErrUnsupported) {
			t.Errorf("a closed batch: the error is %v", err)
		}
	})
	if sent != 0 {
		t.Errorf("it took %d round trips", sent)
	}
}

// cockroachConn is a connection on which the server says at first that it is CockroachDB.
type cockroachConn struct {
	net.Conn
	said bool
}

func (c *cockroachConn) Read(b []byte) (int, error) {
	if c.said {
		return c.Conn.Read(b)
	}
	c.said = true
	text, err := (&pgproto3.ParameterStatus{Name: "crdb_version", Value: "CockroachDB CCL v24.1.0"}).Encode(nil)
	return copy(b, text), err
}
