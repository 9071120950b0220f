//go:build !linux

package delay

import "time"

func precise() (release func()) { return func() {} }

func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }
