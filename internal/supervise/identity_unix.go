//go:build unix

package supervise

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// The signals that stop a process and let it go on.
const (
	SignalStop     = syscall.SIGSTOP
	SignalContinue = syscall.SIGCONT
)

// identity is the account that servers run under: this process's own, or another one if this process is root.
type identity struct {
	other    bool
	uid, gid uint32
}

func serverIdentity() (identity, error) {
	if os.Geteuid() != 0 {
		return identity{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if account, err := user.Lookup(name); err == nil {
			return newIdentity(account)
		}
	}
	return identity{}, errors.New("servers refuse to run as root, and there is no account postgres or nobody " +
		"to run them under: add one, or run as another user")
}

func newIdentity(account *user.User) (identity, error) {
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	return identity{other: true, uid: uint32(uid), gid: uint32(gid)}, errors.Join(uidErr, gidErr)
}

func (i identity) own(path string) error {
	if !i.other {
		return nil
	}
	return os.Chown(path, int(i.uid), int(i.gid))
}

// lead makes cmd the leader of a new process group, so that Ctrl-C reaches only this process.
func (i identity) lead(cmd *exec.Cmd) { i.join(cmd, 0) }

func (i identity) join(cmd *exec.Cmd, group int) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if i.other {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: i.uid, Gid: i.gid}
	}
}
