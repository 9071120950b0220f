package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// chooser finds the chosen session in a snapshot.
type chooser func(*monitor.Snapshot) (monitor.Target, error)

// check refuses arguments that do not choose one session or process.
func (s *signalRun) check(cmd *cobra.Command, args []string) error {
	given, ways := len(args), "PID and --key"
	if s.signal == "terminate" {
		ways = "PID, --key and --holder"
	}
	for _, flag := range []string{"key", "holder"} {
		if cmd.Flags().Changed(flag) {
			given++
		}
	}
	switch {
	case given == 0:
		return misuse(cmd, "expected one of %s", ways)
	case given > 1:
		return misuse(cmd, "expected only one of %s", ways)
	case s.yes && s.dryRun:
		return misuse(cmd, "--dry-run contradicts --yes")
	case s.yes && s.holder == "" && (len(args) == 0 || !strings.ContainsAny(args[0], "@#")):
		return misuse(cmd, "--yes needs PID@SINCE, since a process ID alone can belong to another session "+
			"by now (without --yes this command shows it)")
	}
	return nil
}

// chooser parses the arguments, before the command connects.
func (s *signalRun) chooser(cmd *cobra.Command, args []string) (chooser, error) {
	switch {
	case s.key != "":
		return s.byKey(cmd)
	case s.holder != "":
		return s.byHolder(cmd)
	case strings.ContainsAny(args[0], "@#"):
		return s.bySession(cmd, args[0])
	}
	return s.byPID(cmd, args[0])
}

func (s *signalRun) byPID(cmd *cobra.Command, text string) (chooser, error) {
	pid, err := strconv.ParseInt(text, 10, 32)
	if err != nil || pid <= 0 {
		return nil, misuse(cmd, "%q is not a process ID", text)
	}
	s.id.PID = int32(pid)
	return func(snapshot *monitor.Snapshot) (monitor.Target, error) { return snapshot.Target(s.id) }, nil
}

var isHolder = regexp.MustCompile(`^[0-9a-f]{16}$`)

func (s *signalRun) byHolder(cmd *cobra.Command) (chooser, error) {
	if !isHolder.MatchString(s.holder) {
		return nil, misuse(cmd, "--holder: a process has 16 hexadecimal digits, as in pglock.row_locks")
	}
	s.id.Holder = s.holder
	return func(snapshot *monitor.Snapshot) (monitor.Target, error) {
		t, err := snapshot.Target(s.id)
		if err != nil && snapshot.RowLocksMissing != "" {
			err = fmt.Errorf("%w: %s", monitor.ErrNotPermitted, snapshot.RowLocksMissing)
		}
		return t, err
	}, nil
}

var isSessionRef = regexp.MustCompile(`^([1-9][0-9]{0,8})(@\d{4}-\d\d-\d\dT[0-9:.]+Z|#[0-9a-f]+)$`)

func (s *signalRun) bySession(cmd *cobra.Command, ref string) (chooser, error) {
	parts := isSessionRef.FindStringSubmatch(ref)
	if parts == nil {
		return nil, misuse(cmd, "%q: want PID@SINCE, such as 4711@2026-11-20T20:47:59.123456Z, or PID#FINGERPRINT", ref)
	}
	choose, err := s.byPID(cmd, parts[1])
	if err != nil {
		return nil, err
	}
	return func(snapshot *monitor.Snapshot) (monitor.Target, error) {
		t, err := choose(snapshot)
		if err == nil && t.Ref != ref {
			err = fmt.Errorf("%w as %s: process %d is session %s", monitor.ErrNoSession, ref, t.PID, t.Ref)
		}
		return t, err
	}, nil
}

func (s *signalRun) byKey(cmd *cobra.Command) (chooser, error) {
	key, err := parseKey(cmd, s.key)
	if err != nil {
		return nil, err
	}
	return func(snapshot *monitor.Snapshot) (monitor.Target, error) {
		lock, _ := snapshot.Find(key)
		var pids []int32
		for _, holder := range lock.Holders {
			if holder.Prepared() {
				return monitor.Target{}, fmt.Errorf("%w: a prepared transaction holds %s, which has no process: %s",
					monitor.ErrNoSession, key, rollback(holder.Session))
			}
			pids = append(pids, holder.PID)
		}
		slices.Sort(pids)
		pids = slices.Compact(pids)
		switch len(pids) {
		case 0:
			if holder := rowHolder(snapshot, key); holder != "" {
				return monitor.Target{}, fmt.Errorf("%w: %s is held in a row, not by a session: use --holder %s", monitor.ErrNoSession, key, holder)
			}
			return monitor.Target{}, fmt.Errorf("%w: no session holds %s in database %s",
				monitor.ErrNoSession, key, snapshot.Database)
		case 1:
			return snapshot.Target(monitor.SessionID{PID: pids[0]})
		}
		return monitor.Target{}, &exit{codeOther, fmt.Errorf("%d sessions hold %s: choose one by its PID, of %s",
			len(pids), key, strings.Trim(fmt.Sprint(pids), "[]"))}
	}, nil
}

// rowHolder returns a process that holds the key in a row, or "".
func rowHolder(s *monitor.Snapshot, key pglock.Key) string {
	for _, lock := range s.Locks {
		if lock.InRow && lock.ID() == key.ID() && len(lock.Holders) > 0 {
			return lock.Holders[0].Lease.Holder
		}
	}
	return ""
}

// rollback returns an error that says how to end a prepared transaction.
func rollback(session monitor.Session) string {
	if session.GID == "" {
		return "it has ended meanwhile"
	}
	return fmt.Sprintf("as its owner %s or a superuser, in database %s, run: %s",
		session.User, session.Database, session.RollbackSQL())
}
