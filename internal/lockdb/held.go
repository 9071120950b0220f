package lockdb

import (
	"regexp"
	"strconv"
)

var heldKey = regexp.MustCompile(`\bpglock_held_([0-9]+)\b`)

// HeldKey reads from the message of the error with which QueueLocksTx refuses, in whatever language, which of its
// keys is held elsewhere, counted from 1; ok is false for other messages.
func HeldKey(message string) (number int, ok bool) {
	match := heldKey.FindStringSubmatch(message)
	if match == nil {
		return 0, false
	}
	number, err := strconv.Atoi(match[1])
	return number, err == nil
}
