package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// chooser finds the chosen session in a snapshot.
type chooser func(*monitor.Snapshot) (monitor.SignalTarget, error)

// check refuses arguments that do not choose one session or process.
func (s *signalRun) check(cmd *cobra.Command, args []string) error {
	given, ways := len(args), "PID, --key and --session"
	if s.signal == monitor.SignalTerminate {
		ways = "PID, --key, --session and --holder"
	}
	for _, flag := range []string{"key", "session", "holder"} {
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
	case s.yes && s.session == "" && s.holder == "":
		return misuse(cmd, "--yes needs --session PID@SINCE, since a process ID alone can belong to another session "+
			"by now (without --yes this command shows it)")
	}
	return nil
}

// chooser parses the arguments, before the command connects.
func (s *signalRun) chooser(cmd *cobra.Command, args []string) (chooser, error) {
	switch {
	case len(args) == 1:
		return s.byPID(cmd, args[0])
	case s.key != "":
		return s.byKey(cmd)
	}
	return s.bySession(cmd, s.session)
}

func (s *signalRun) byPID(cmd *cobra.Command, text string) (chooser, error) {
	pid, err := strconv.ParseInt(text, 10, 32)
	if err != nil || pid <= 0 {
		return nil, misuse(cmd, "%q is not a process ID", text)
	}
	s.pid = int32(pid)
	return func(snapshot *monitor.Snapshot) (monitor.SignalTarget, error) {
		return monitor.Inspect(snapshot, s.pid)
	}, nil
}

func (s *signalRun) bySession(cmd *cobra.Command, text string) (chooser, error) {
	binding, err := monitor.ParseSessionRef(text)
	if err != nil {
		return nil, misuse(cmd, "--session: %s", strings.TrimPrefix(err.Error(), "monitor: "))
	}
	s.pid = binding.PID
	return func(snapshot *monitor.Snapshot) (monitor.SignalTarget, error) {
		c, err := monitor.Inspect(snapshot, binding.PID)
		if err == nil && !c.Ref.Equal(binding) {
			err = fmt.Errorf("%w as %s: process %d is session %s", monitor.ErrNoSession, binding, binding.PID, c.Ref)
		}
		return c, err
	}, nil
}

func (s *signalRun) byKey(cmd *cobra.Command) (chooser, error) {
	key, err := parseKey(cmd, s.key)
	if err != nil {
		return nil, err
	}
	return func(snapshot *monitor.Snapshot) (monitor.SignalTarget, error) {
		lock, _ := snapshot.Find(key)
		var pids []int32
		for _, holder := range lock.Holders {
			if holder.Prepared() {
				return monitor.SignalTarget{}, fmt.Errorf("%w: a prepared transaction holds %s, which has no process: %s",
					monitor.ErrNoSession, key, rollback(holder.Session))
			}
			pids = append(pids, holder.PID)
		}
		slices.Sort(pids)
		pids = slices.Compact(pids)
		switch len(pids) {
		case 0:
			if holder := rowHolder(snapshot, key); holder != "" {
				return monitor.SignalTarget{}, fmt.Errorf("%w: %s is held in a row, not by a session: use --holder %s", monitor.ErrNoSession, key, holder)
			}
			return monitor.SignalTarget{}, fmt.Errorf("%w: no session holds %s in database %s",
				monitor.ErrNoSession, key, snapshot.Database)
		case 1:
			return monitor.Inspect(snapshot, pids[0])
		}
		return monitor.SignalTarget{}, &exit{codeOther, fmt.Errorf("%d sessions hold %s: choose one by its PID, of %s",
			len(pids), key, strings.Trim(fmt.Sprint(pids), "[]"))}
	}, nil
}

// rowHolder returns a process that holds the key in a row, or "".
func rowHolder(s *monitor.Snapshot, key pglock.Key) string {
	for _, lock := range s.RowLocks {
		if lock.ID() == key.ID() && len(lock.Holders) > 0 {
			return lock.Holders[0].Holder
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
