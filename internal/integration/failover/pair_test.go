package failover_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// pair is a primary with a standby, and the addresses at which clients reach them: three places, of which servers have two
// at rest, and an address that moves with the primary.
type pair struct {
	*testing.T
	places [3]place
	moving *net.TCPAddr

	mu      sync.Mutex
	primary int // an index of places
	standby int
}

// place is an address behind which a server is.
type place struct {
	link    *testenv.Link
	address *net.TCPAddr
	server  *pgserver.Server // nil if it is free
}

func newPair(t *testing.T, synchronous bool) *pair {
	settings := map[string]string{"wal_keep_size": "256MB", "wal_sender_timeout": "5s", "wal_receiver_timeout": "5s"}
	if synchronous {
		settings["synchronous_standby_names"] = "*"
	}
	p := &pair{T: t, standby: 1}
	p.places[0].server = testenv.NewServer(t, settings)
	p.addStandby(1)
	for i := range p.places {
		p.places[i].link, p.places[i].address = testenv.NewMovingProxy(t, func() string { return p.serverAt(i) })
	}
	_, p.moving = testenv.NewMovingProxy(t, p.placeOfPrimary)
	return p
}

func (p *pair) serverAt(i int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places[i].server == nil {
		return ""
	}
	return fmt.Sprintf("127.0.0.1:%d", p.places[i].server.Port())
}

func (p *pair) placeOfPrimary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.places[p.primary].address.String()
}

func (p *pair) server(i int) *pgserver.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.places[i].server
}

func (p *pair) put(i int, server *pgserver.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.places[i].server = server
}

// addStandby makes a standby of the primary, by a copy of its files.
func (p *pair) addStandby(place int) {
	standby, err := p.server(p.primary).Standby(context.Background())
	must.Succeed(p.T, err)
	p.Cleanup(func() { must.Succeed(p.T, standby.Stop()) })
	p.put(place, standby)
	p.mu.Lock()
	p.standby = place
	p.mu.Unlock()
}

// hosts is an address with all places, of which one accepts writes; and moving one that leads to the primary.
func (p *pair) urls() (hosts, moving string) {
	var all []string
	for _, place := range p.places {
		all = append(all, place.address.String())
	}
	target, err := url.Parse(p.server(p.primary).ConnString(pgserver.Superuser))
	must.Succeed(p.T, err)
	query := target.Query()
	query.Set("connect_timeout", "2")
	query.Set("pool_max_conns", "12")
	query.Set("target_session_attrs", "read-write")
	target.Host, target.RawQuery = strings.Join(all, ","), query.Encode()
	hosts = target.String()
	target.Host = p.moving.String()
	return hosts, target.String()
}

// connect returns a connection to the primary that no fault reaches.
func (p *pair) connect() *pgx.Conn {
	conn, err := pgx.Connect(context.Background(), p.server(p.primary).ConnString(pgserver.Superuser))
	must.Succeed(p.T, err)
	return conn
}

// port identifies the primary in what it writes.
func (p *pair) port() int { return p.server(p.primary).Port() }

// switched returns where the WAL of the new primary leaves that of the old one.
func (p *pair) switched() uint64 {
	conn := p.connect()
	defer func() { _ = conn.Close(context.Background()) }()
	var history string
	must.Succeed(p.T, conn.QueryRow(context.Background(), `select pg_read_file('pg_wal/' ||
		substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '.history')`).Scan(&history))
	lines := strings.Split(strings.TrimSpace(history), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	return position(p.T, fields[1])
}

// position reads a pg_lsn.
func position(t *testing.T, text string) uint64 {
	var high, low uint64
	_, err := fmt.Sscanf(text, "%X/%X", &high, &low)
	must.Succeed(t, err)
	return high<<32 | low
}

// mode is what happens to the old primary.
type mode string

const (
	immediate mode = "ended at once"
	fast      mode = "shut down"
	killed    mode = "killed"
	frozen    mode = "frozen"
	cutOff    mode = "cut off"
	zombie    mode = "lives on"
)

// livesOn says that the old primary answers again after its standby was promoted.
func (m mode) livesOn() bool { return m == frozen || m == cutOff || m == zombie }

// shadow is how long an old primary that lives on answers beside the new one.
const shadow = 3 * time.Second

// fail makes something happen to the primary.
func (p *pair) fail(m mode) {
	old, ctx := p.server(p.primary), context.Background()
	switch m {
	case immediate:
		must.Succeed(p.T, old.Down(ctx, pgserver.Immediate))
	case fast:
		must.Succeed(p.T, old.Down(ctx, pgserver.Fast))
	case killed:
		must.Succeed(p.T, old.Down(ctx, pgserver.Killed))
	case frozen:
		must.Succeed(p.T, old.Freeze())
	case cutOff:
		p.places[p.primary].link.Cut(true, true)
	case zombie:
	}
}

// promote makes the standby the primary, and returns the place of the old one.
func (p *pair) promote() (old int) {
	must.Succeed(p.T, p.server(p.standby).Promote(context.Background()))
	p.mu.Lock()
	defer p.mu.Unlock()
	old, p.primary, p.standby = p.primary, p.standby, p.primary
	return old
}

// revive lets an old primary answer again.
func (p *pair) revive(m mode, old int) {
	switch m {
	case frozen:
		must.Succeed(p.T, p.server(old).Thaw())
	case cutOff:
		p.places[old].link.Cut(false, false)
	default:
	}
}

// end ends an old primary that lives on.
func (p *pair) end(old int) {
	must.Succeed(p.T, p.server(old).Down(context.Background(), pgserver.Immediate))
}

// rebuild gives the primary a new standby, at the place that is free.
func (p *pair) rebuild(old int) { p.addStandby(3 - p.primary - old) }

// retire forgets a server that is down and is no standby.
func (p *pair) retire(place int) {
	must.Succeed(p.T, p.server(place).Stop())
	p.put(place, nil)
}
