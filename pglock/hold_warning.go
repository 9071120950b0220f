package pglock

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// WithHoldWarning logs a warning, once for each Lock, if the Lock is still held d after it was acquired. The warning
// has the key, and the function, file and line that acquired the Lock. This finds forgotten locks but, unlike [MaxHold],
// does not end them. The warning goes to the logger of [WithLogger], or else to [slog.Default]. Locks of leaders, which
// are meant to be held, are excluded, and so are those by which the monitor recognises others; for slots of a semaphore
// the place is unknown. The default is no warning. It is an error if d is not positive.
//
// Each acquisition then notes its callers and starts a timer, which costs about a microsecond.
func WithHoldWarning(d time.Duration) Option {
	return lockerOption(func(c *lockerConfig) error {
		if d <= 0 {
			return fmt.Errorf("pglock: WithHoldWarning(%v): the duration is not positive", d)
		}
		c.holdWarning = d
		return nil
	})
}

// warnWhenHeld logs a warning if l is still held after d.
func (l *Lock) warnWhenHeld(d time.Duration) {
	callers := make([]uintptr, maxCallers)
	callers = callers[:runtime.Callers(2, callers)]
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.lazyLocked()
	if l.err != nil || x.use != nil && slices.Contains([]UseKind{UseLeader, UseLeaderMark, UseTickMark}, x.use.Kind) {
		return
	}
	x.heldLong = time.AfterFunc(d, func() { l.hold.locker.notifications.add(func() { l.warnHeld(callers) }) })
}

func (l *Lock) warnHeld(callers []uintptr) {
	if l.Err() != nil {
		return
	}
	l.hold.locker.Logger().Warn("lock held for long", "key", Key{k: l.key[0]}, "more", len(l.keys())-1, "held", driver.Now().Sub(l.since),
		"acquired_by", firstOutside(callers))
}

// firstOutside returns the innermost caller outside of this library.
func firstOutside(callers []uintptr) string {
	frames := runtime.CallersFrames(callers)
	for {
		frame, more := frames.Next()
		if frame.Function != "" && !ofThisLibrary(frame.Function) {
			return fmt.Sprintf("%s (%s:%d)", frame.Function, frame.File, frame.Line)
		}
		if !more {
			return "unknown"
		}
	}
}

// ofThisLibrary reports whether a function is of package pglock or of one below it.
func ofThisLibrary(function string) bool {
	rest, ok := strings.CutPrefix(function, libraryPath)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == '/' && !strings.Contains(rest, "_test.")) || function == "runtime.goexit"
}

const (
	libraryPath = "github.com/pglock-toolkit/pglock/pglock"
	maxCallers  = 24
)
