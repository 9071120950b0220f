//go:build !linux

package delay

import "time"

func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }
