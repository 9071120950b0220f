package simulation

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// templates are the statements whose parameters matter.
var templates = map[string]string{
	"PrepareWait": lockdb.PrepareWait, "LockSession": lockdb.LockSession, "CheckSession": lockdb.CheckSession,
	"WriterWaits": lockdb.WriterWaits, "Holders": lockdb.Holders, "WaitStands": lockdb.WaitStands,
	"CancelWait": lockdb.CancelWait,
}

// call carries out a statement that is no batch.
func (p *process) call(sql string) (rows []pgproto3.BackendMessage, code failure) {
	if text, _, looks := strings.Cut(sql, "-- name: LookAtWaits "); looks {
		if !p.server.s.nests { // no process publishes its waits
			return nil, permissionCode
		}
		return p.lookAtWaits(text), ""
	}
	sql = strings.TrimPrefix(sql, lockdb.SetTurn+";")
	name := nameOf(sql)
	args := arguments(templates[name], sql)
	switch name {
	case "SetReadCommitted", "SliceWaits": // the first of many settings
		if name == "SliceWaits" {
			p.lockTimeout = 2 * time.Second
		}
		return []pgproto3.BackendMessage{&pgproto3.CommandComplete{CommandTag: []byte("SET")}}, ""
	case "SetUpSession":
		return described(column{"outcome", "granted", 25}, column{"version", "170000", 23}, column{"lock_table", "10000", 20},
			column{"server", "1/sim", 25}, column{"database", "5", 20}), ""
	case "ProveSession":
		return row("own"), ""
	case "Heartbeat":
		return row("1"), ""
	case "CreateSettleFunction":
		if p.server.sliced {
			return nil, permissionCode
		}
		return nil, ""
	case "PrepareWait":
		p.operation, p.number = args[2], args[3]
		return row("granted"), ""
	case "WaitWithoutSnapshot":
		return nil, p.waitToLock(p.operation, p.number)
	case "LockSession":
		if code := p.waitToLock(args[2], args[3]); code != "" {
			return nil, code
		}
		return row("granted"), ""
	case "UnlockAllSession":
		p.unlockAll()
		return row("t"), ""
	case "CheckSession":
		return row(strconv.FormatBool(p.holds(keysOf(args[2], args[1])[0]))[:1]), ""
	case "WriterWaits":
		return p.writerWaits(keysOf(args[2], args[1])), ""
	case "Holders":
		return p.holders(keysOf(args[1], args[2])), ""
	case "WaitStands", "CancelWait":
		return p.about(name, args[1]), ""
	}
	p.server.s.wrong("the server does not know the statement %s", sql)
	return nil, permissionCode
}

// nameOf returns the name of one of this library's statements.
func nameOf(sql string) string {
	rest, ok := strings.CutPrefix(sql, "-- name: ")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, " ")
	return name
}

// arguments returns the text that stands in sql where the template has $n, by n.
func arguments(template, sql string) map[int]string {
	args := map[int]string{}
	for {
		before, rest, found := strings.Cut(template, "$")
		if !found || len(before) >= len(sql) {
			return args
		}
		sql = sql[len(before)+1:] // and the quote
		var value string
		value, sql, _ = strings.Cut(sql, "'")
		args[int(rest[0]-'0')] = value
		template = rest[1:]
	}
}

// keysOf makes keys of two arrays.
func keysOf(numbers, spaces string) (keys []driver.KeyID) {
	all := numbersOf(spaces)
	for i, number := range numbersOf(numbers) {
		keys = append(keys, driver.KeyID{Space: driver.Space(all[i]), Number: number})
	}
	return keys
}

// numbersOf reads an array in text form.
func numbersOf(text string) (values []int64) {
	for _, field := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("{},", r) }) {
		n, _ := strconv.ParseInt(field, 10, 64)
		values = append(values, n)
	}
	return values
}

// column is one of an answer that says what it consists of.
type column struct {
	name, value string
	oid         uint32
}

func described(columns ...column) []pgproto3.BackendMessage {
	description := &pgproto3.RowDescription{}
	data := &pgproto3.DataRow{}
	for _, column := range columns {
		description.Fields = append(description.Fields, pgproto3.FieldDescription{Name: []byte(column.name), DataTypeOID: column.oid, DataTypeSize: -1, TypeModifier: -1})
		data.Values = append(data.Values, []byte(column.value))
	}
	return []pgproto3.BackendMessage{description, data, &pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")}}
}

func (p *process) writerWaits(keys []driver.KeyID) []pgproto3.BackendMessage {
	p.server.s.mu.Lock()
	defer p.server.s.mu.Unlock()
	return row(strconv.FormatBool(p.server.locks.writerWaits(keys[0]))[:1])
}

// holders answers who holds a key.
func (p *process) holders(keys []driver.KeyID) []pgproto3.BackendMessage {
	p.server.s.mu.Lock()
	defer p.server.s.mu.Unlock()
	var all []string
	for _, h := range p.server.locks.of(keys[0]).held {
		all = append(all, fmt.Sprintf(`{"Shared":%v,"PID":%d}`, h.shared, h.by.pid))
	}
	return row("[" + strings.Join(all, ",") + "]")
}

// about answers what a statement asks, or does, about another process that waits for a lock.
func (p *process) about(name, pid string) []pgproto3.BackendMessage {
	n, _ := strconv.ParseUint(pid, 10, 32)
	p.server.s.mu.Lock()
	other := p.server.processes[uint32(n)]
	waits := other != nil && other.waits
	p.server.s.mu.Unlock()
	switch {
	case !waits:
		return nil
	case name == "CancelWait":
		p.server.cancel(other.pid, "by a mux session")
	}
	return row("t")
}
