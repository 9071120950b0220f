//go:build !unix

package job

import (
	"os"
	"syscall"
)

func attributes(bool) *syscall.SysProcAttr { return nil }

func (j *Job) terminate() { j.send(os.Kill) }

func sendToGroup(leader int, signal os.Signal) {
	if process, err := os.FindProcess(leader); err == nil {
		_ = process.Signal(signal) // it may have ended
	}
}

func groupExists(int) bool { return false }

func signalNumber(*os.ProcessState) int { return 0 }

func fromTerminal(signal os.Signal) bool { return signal == os.Interrupt }

func advice(error) string { return "" }

var stopping, others = []os.Signal{os.Interrupt}, []os.Signal{}

func surviveBrokenPipe() {}
