package cli

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/monitor"
)

// chooser finds the chosen session in a snapshot.
type chooser func(*monitor.Snapshot) (monitor.Target, error)

// check refuses arguments that do not choose one session or process.
func (s *signalRun) check(cmd *cobra.Command, args []string) error {
	switch holder := cmd.Flags().Changed("holder"); {
	case s.signal == "terminate" && holder == (len(args) > 0):
		return misuse(cmd, "expected one PID, or --holder")
	case s.signal == "cancel" && len(args) == 0:
		return misuse(cmd, "expected one PID")
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
