package supervise

import (
	"errors"
	"io"
	"os"
	"os/exec"
)

// process is a server's process.
type process struct {
	*os.Process
	log   string
	begin int64 // start of its own output in log
	done  chan struct{}
	err   error // how it ended, as [exec.Cmd.Wait] says; written before done is closed
}

// run starts a command that [Supervisor.Command] has prepared. Its output is appended to the file log.
func (s *Supervisor) run(cmd *exec.Cmd, log string) (*process, error) {
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
	p := &process{Process: cmd.Process, log: log, begin: begin, done: make(chan struct{})}
	s.waits.Go(func() {
		p.err = cmd.Wait()
		close(p.done)
	})
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// said returns the output of the process in its log.
func (p *process) said() string {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	return string(log[min(p.begin, int64(len(log))):])
}
