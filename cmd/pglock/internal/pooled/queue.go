package pooled

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Queue is a pool of sessions with clients that wait for one of them. The server does not know these clients.
type Queue struct {
	Database, Role string
	// Mode says when a client gives its session back, such as "session" or "transaction".
	Mode string
	// Clients is how many wait, and Longest how long the first of them has waited.
	Clients int
	Longest time.Duration
	// Sessions is how many the pool has, and Used those that clients have.
	Sessions int
	Used     []Session
}

// Queues asks for the pools that have a queue. After an error it connects again.
func (p *Pooler) Queues(ctx context.Context) ([]Queue, error) {
	queues, err := p.queues(ctx)
	if err != nil {
		p.Close(ctx)
		return nil, fmt.Errorf("ask PgBouncer for its queues: %w", err)
	}
	return queues, nil
}

func (p *Pooler) queues(ctx context.Context) ([]Queue, error) {
	if err := p.connect(ctx); err != nil {
		return nil, err
	}
	servers, err := p.show(ctx, "SHOW SERVERS", "database", "user", "remote_pid", "local_port", "local_addr", "link")
	if err != nil {
		return nil, err
	}
	type pool struct{ database, role string }
	sessions, used := map[pool]int{}, map[pool][]Session{}
	for _, s := range servers {
		of := pool{s[0], s[1]}
		sessions[of]++
		if s[5] != "" {
			used[of] = append(used[of], sessionAt(s[2], s[3], s[4]))
		}
	}
	pools, err := p.show(ctx, "SHOW POOLS", "database", "user", "cl_waiting", "maxwait", "maxwait_us", "pool_mode")
	if err != nil {
		return nil, err
	}
	var all []Queue
	for _, row := range pools {
		var numbers [3]int
		for i, text := range row[2:5] {
			if numbers[i], err = strconv.Atoi(text); err != nil {
				return nil, fmt.Errorf("%q is no number of clients: %w", text, err)
			}
		}
		if of := (pool{row[0], row[1]}); numbers[0] > 0 {
			all = append(all, Queue{Database: of.database, Role: of.role, Mode: row[5], Clients: numbers[0],
				Longest:  time.Duration(numbers[1])*time.Second + time.Duration(numbers[2])*time.Microsecond,
				Sessions: sessions[of], Used: used[of]})
		}
	}
	return all, nil
}

// Waits returns the waits for locks of sessions in use. Where the role may not see the address of a session, its process ID
// must do.
func (q Queue) Waits(s *monitor.Snapshot) (waits []monitor.Wait) {
	for wait := range s.Waits() {
		if slices.ContainsFunc(q.Used, func(used Session) bool {
			return used == sessionOf(wait.Session) ||
				slices.Contains(wait.Hidden, "client") && used.PID == fmt.Sprint(wait.PID)
		}) {
			waits = append(waits, wait)
		}
	}
	return waits
}
