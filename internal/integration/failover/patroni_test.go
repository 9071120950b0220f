package failover_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/supervise"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// What happens to a cluster of Patroni.
const (
	switchover mode = "switchover by Patroni"
	nodeKilled mode = "killed, under Patroni"
)

// TestLongFailoverByPatroni: three nodes, of which Patroni keeps one as a synchronous standby, and etcd.
func TestLongFailoverByPatroni(t *testing.T) {
	for _, program := range []string{"patroni", "etcd"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s on the PATH (on Debian: apt-get install patroni etcd-server)", program)
		}
	}
	p := newPatroni(t)
	c := &campaign{T: t, title: "PostgreSQL, three nodes of Patroni", synchronous: true, guarded: true, history: newHistory()}
	p.awaitReady()
	c.tally.Part = c.title
	c.install(p.url(p.leader()))
	end := c.start([]string{p.hosts(), p.hosts(), p.hosts(), p.hosts()}, 0)
	start := time.Now()
	for i := range *promotions + 1 {
		c.awaitWork()
		p.awaitReady()
		p.change(c, []mode{switchover, nodeKilled}[i%2])
	}
	c.awaitWork()
	end()
	conn, err := pgx.Connect(context.Background(), p.url(p.leader()))
	must.Succeed(t, err)
	c.finish(conn, start)
}

// patroni is a cluster of three nodes.
type patroni struct {
	*testing.T
	supervisor *supervise.Supervisor
	password   string
	etcd       int // its port
	nodes      [3]*node
}

type node struct {
	name       string
	port, rest int
	patroni    *supervise.Process
	dataDir    string
}

func newPatroni(t *testing.T) *patroni {
	supervisor, err := supervise.New("pglock-patroni-")
	must.Succeed(t, err)
	p := &patroni{T: t, supervisor: supervisor, password: rand.Text()}
	t.Cleanup(func() { must.Succeed(t, supervisor.Close()) })
	p.startEtcd()
	for i := range p.nodes {
		name := fmt.Sprintf("node%d", i)
		p.nodes[i] = &node{name: name, port: freePort(t), rest: freePort(t), dataDir: supervisor.Path(name)}
		p.start(p.nodes[i])
		t.Cleanup(func() { p.kill(p.nodes[i]) })
	}
	return p
}

func freePort(t *testing.T) int {
	port, err := supervise.FreePort()
	must.Succeed(t, err)
	return port
}

func (p *patroni) startEtcd() {
	p.etcd = freePort(p.T)
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", p.etcd), fmt.Sprintf("http://127.0.0.1:%d", freePort(p.T))
	_, err := p.supervisor.Start(p.supervisor.Command(context.Background(), "etcd", "--data-dir="+p.supervisor.Path("etcd"),
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer, "--unsafe-no-fsync"), p.supervisor.Path("etcd.log"))
	must.Succeed(p.T, err)
}

const patroniConfig = `
scope: locks
name: %[1]s
restapi: {listen: "127.0.0.1:%[2]d", connect_address: "127.0.0.1:%[2]d"}
etcd3: {host: "127.0.0.1:%[3]d"}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 5
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      parameters: {wal_keep_size: 256MB, max_connections: 200, fsync: "off"}
  initdb: [{encoding: UTF8}, {locale: C}, no-sync]
postgresql:
  listen: "127.0.0.1:%[4]d"
  connect_address: "127.0.0.1:%[4]d"
  data_dir: %[5]s
  bin_dir: %[6]s
  pgpass: %[5]s.pgpass
  pg_hba: ["local all all scram-sha-256", "host all all 127.0.0.1/32 scram-sha-256", "host replication all 127.0.0.1/32 scram-sha-256"]
  parameters: {unix_socket_directories: %[7]s}
  authentication:
    superuser: {username: postgres, password: %[8]s}
    replication: {username: replicator, password: %[8]s}
    rewind: {username: rewinder, password: %[8]s}
`

// start starts Patroni on a node, and Patroni its server.
func (p *patroni) start(n *node) {
	binaries, err := pgserver.Find()
	must.Succeed(p.T, err)
	file, err := p.supervisor.WriteFile(n.name+".yml", fmt.Sprintf(patroniConfig,
		n.name, n.rest, p.etcd, n.port, n.dataDir, binaries.Dir, p.supervisor.Dir(), p.password))
	must.Succeed(p.T, err)
	n.patroni, err = p.supervisor.Start(p.supervisor.Command(context.Background(), "patroni", file), p.supervisor.Path(n.name+".log"))
	must.Succeed(p.T, err)
}

// kill kills Patroni and the server of a node; the processes of the server end without their first one.
func (p *patroni) kill(n *node) {
	if !n.patroni.Ended() {
		must.Succeed(p.T, n.patroni.Signal(syscall.SIGKILL))
		<-n.patroni.Done()
	}
	text, err := os.ReadFile(n.dataDir + "/postmaster.pid")
	if err != nil {
		return // it does not run
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	must.Succeed(p.T, err)
	_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
}

// members returns the role of each node, as one that answers sees them.
func (p *patroni) members() map[string]string {
	for _, n := range p.nodes {
		var cluster struct {
			Members []struct{ Name, Role, State string }
		}
		if p.ask(http.MethodGet, n, "/cluster", nil, &cluster) != nil {
			continue
		}
		roles := map[string]string{}
		for _, m := range cluster.Members {
			if m.State == "running" || m.State == "streaming" {
				roles[m.Name] = m.Role
			}
		}
		return roles
	}
	return nil
}

func (p *patroni) ask(method string, n *node, path string, body, answer any) error {
	sent, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d%s", n.rest, path), bytes.NewReader(sent))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if answer != nil {
		return json.NewDecoder(response.Body).Decode(answer)
	}
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}

// leader returns the primary, or nil.
func (p *patroni) leader() *node {
	members := p.members()
	for _, n := range p.nodes {
		if members[n.name] == "leader" {
			return n
		}
	}
	return nil
}

// awaitReady returns when all nodes run, and one is a synchronous standby.
func (p *patroni) awaitReady() {
	testenv.WaitUntil(p.T, "Patroni has a primary, a synchronous standby and another one", func() bool {
		found := map[string]int{}
		for _, role := range p.members() {
			found[role]++
		}
		return found["leader"] == 1 && found["sync_standby"] == 1 && found["replica"] == 1
	})
}

// change lets the cluster choose another primary, and returns when the old one is a standby again.
func (p *patroni) change(c *campaign, m mode) {
	old := p.leader()
	e := c.history.begins(m, old.port, 0)
	if m == switchover {
		must.Succeed(p.T, p.ask(http.MethodPost, old, "/switchover", map[string]string{"leader": old.name}, nil))
	} else {
		p.kill(old)
		c.tally.Kills.Add(1)
	}
	testenv.WaitUntil(p.T, "there is another primary", func() bool {
		now := p.leader()
		return now != nil && now != old
	})
	e.promoted = c.history.now()
	e.end = e.promoted + lease
	if m == nodeKilled {
		p.start(old)
	}
	c.tally.Trials.Add(1)
}

func (p *patroni) url(n *node) string {
	return fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres?sslmode=disable", p.password, n.port)
}

// hosts is an address with all nodes.
func (p *patroni) hosts() string {
	var all []string
	for _, n := range p.nodes {
		all = append(all, fmt.Sprintf("127.0.0.1:%d", n.port))
	}
	return fmt.Sprintf("postgres://postgres:%s@%s/postgres?sslmode=disable&target_session_attrs=read-write&connect_timeout=2&pool_max_conns=12",
		p.password, strings.Join(all, ","))
}
