package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/pooled"
)

const poolerQueue = "pooler-queue"

// shortQueue is how long clients of a pooler may wait for a session: a transaction pooler makes them wait all the time.
const shortQueue = time.Second

// queues reports clients that wait in a pooler for a session.
func queues(f facts, o Options) []Finding {
	behind := f.connection.Pid != f.keyDataPID
	if !o.AskedPoolers && behind {
		return []Finding{{Check: poolerQueue, Level: Note,
			What: "it is unknown whether clients wait in the proxy for a session",
			Why:  "no snapshot shows these clients, since they have not reached the server",
			Do:   "if it is PgBouncer, give the URL of its console: --pgbouncer URL; its SHOW POOLS has cl_waiting and maxwait",
		}}
	}
	if !o.AskedPoolers {
		return nil
	}
	var all []Finding
	for _, q := range o.Queues {
		if q.Longest >= shortQueue {
			all = append(all, f.queue(q))
		}
	}
	for _, err := range o.SilentPoolers {
		all = append(all, Finding{Check: poolerQueue, Level: Warning,
			What: "it is unknown whether clients wait in PgBouncer for a session: its console does not answer",
			Why:  strings.Join(strings.Fields(err.Error()), " "),
			Do:   "see whether PgBouncer runs, and whether the role is one of its stats_users or admin_users"})
	}
	if len(all) == 0 {
		return []Finding{{Check: poolerQueue, Level: OK, What: "no client waits long in PgBouncer for a session"}}
	}
	return atMost(all, "pools with a queue")
}

func (f facts) queue(q pooled.Queue) Finding {
	finding := Finding{Check: poolerQueue, Level: Warning,
		What: QueueText(q),
		Why: "no snapshot shows these clients, since they have not reached the server. A lock in a row is lost if its process " +
			"waits there for longer than its lease",
		Do: "make the pool larger (pool_size, default_pool_size; see max_db_connections too), or have clients give sessions back " +
			"sooner; SHOW CLIENTS says who has one (the column link)",
	}
	if q.Mode == "session" {
		finding.Do += ". With session pooling a client keeps its session until it disconnects, so the pools of all clients together " +
			"must not be larger than this one"
	}
	waits := q.Waits(f.snapshot)
	if len(waits) == 0 {
		return finding
	}
	some := fmt.Sprintf("%d of the %s in use wait", len(waits), count(len(q.Used), "session"))
	if len(waits) == len(q.Used) {
		some = "all sessions in use wait"
	}
	finding.Why = some + " for locks, so the queue waits for these locks too; no snapshot shows that, since its clients have not " +
		"reached the server"
	finding.Do = "see what these sessions wait for: pglock monitor --all"
	if root := rootOf(f.snapshot.Tree().Node(waits[0].ID())); root != nil && root.Behind > 0 {
		finding.Do = fmt.Sprintf("free them first: at the root is %s; to end it: %s", root.Who(), f.terminate(root.ID()))
	}
	return finding
}

// QueueText describes a queue.
func QueueText(q pooled.Queue) string {
	wait := "clients wait"
	if q.Clients == 1 {
		wait = "client waits"
	}
	return fmt.Sprintf("%d %s in PgBouncer for a session of pool %s/%s (%s pooling, %s, %d in use), the first for %v", q.Clients,
		wait, q.Database, q.Role, q.Mode, count(q.Sessions, "session"), len(q.Used), q.Longest.Round(time.Second/10))
}
