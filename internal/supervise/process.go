package supervise

import (
	"errors"
	"io"
	"os"
	"os/exec"
)

// Process is a command that runs in the background. All methods may be called concurrently.
type Process struct {
	cmd   *exec.Cmd
	log   string
	begin int64 // start of its own output in log
	done  chan struct{}
	err   error // written before done is closed
}

// Start starts a command that [Supervisor.Command] has prepared. Its output is appended to the file log.
func (s *Supervisor) Start(cmd *exec.Cmd, log string) (*Process, error) {
	file, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	begin, err := file.Seek(0, io.SeekEnd)
	if err == nil {
		cmd.Stdout, cmd.Stderr = file, file
		err = cmd.Start()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, log: log, begin: begin, done: make(chan struct{})}
	s.waits.Go(p.wait)
	return p, nil
}

func (p *Process) wait() {
	p.err = p.cmd.Wait()
	close(p.done)
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the process. It returns [os.ErrProcessDone] if the process has ended.
func (p *Process) Signal(signal os.Signal) error { return p.cmd.Process.Signal(signal) }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Err waits for the end of the process and says how it ended, as [exec.Cmd.Wait] does.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Said returns the output of the process in its log.
func (p *Process) Said() string {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	return string(log[min(p.begin, int64(len(log))):])
}
