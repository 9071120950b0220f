package lockkeys

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// The keys of primitives are in the space of pairs. Each kind has its own mark in the upper 16 bits, so that the
// monitor recognizes it with nothing installed in the database. Below the mark is a part of the number of the user's
// key, by which a registry of names finds the name:
//
//	semaphore   mark "ps" | 36 bits of the user's key | 12 bits: 0 the gate, from 1 on the slots
//	leader      mark "pl" | 48 bits of the user's key
//	tick        mark "pt" | 48 bits of the key of the job's lock
//
// Two semaphores whose keys agree in the 36 bits share their slots, which can keep them waiting but never exceeds a
// limit; among 10,000 names that is likely once in 1,400 databases. The keys are raw, so they are the same on every
// backend: even on Redis a semaphore is identified by the number of its key, not by its name.
const (
	semaphoreMark = 0x7073
	markShift     = 48
	slotBits      = 12
	semaphoreBits = markShift - slotBits
	MaxSlots      = 1<<slotBits - 1 // of one semaphore
)

// fold reduces a key's number to some bits. Small raw numbers and hashes stay distinct.
func fold(key driver.KeyID, bits int) uint64 {
	n := uint64(key.Number)
	n ^= n >> bits
	if key.Space == driver.SpacePair {
		n = ^n // the pair (0, 7) is not the bigint 7
	}
	return n & (1<<bits - 1)
}

// SemaphoreID is the part of the user's key in the keys of a semaphore.
type SemaphoreID uint64

// Semaphore returns the ID of the semaphore named by key.
func Semaphore(key driver.KeyID) SemaphoreID { return SemaphoreID(fold(key, semaphoreBits)) }

// Key returns the key of a slot, from 1 to MaxSlots, or for 0 that of the gate.
func (id SemaphoreID) Key(slot int) driver.KeyID {
	return driver.KeyID{Space: driver.SpacePair, Number: semaphoreMark<<markShift | int64(id)<<slotBits | int64(slot)}
}

// ParseSemaphore reports whether key belongs to a semaphore, and which key it is.
func ParseSemaphore(key driver.KeyID) (id SemaphoreID, slot int, ok bool) {
	if key.Space != driver.SpacePair || key.Number>>markShift != semaphoreMark {
		return 0, 0, false
	}
	return SemaphoreID(key.Number >> slotBits & (1<<semaphoreBits - 1)), int(key.Number & MaxSlots), true
}

// Mark says what a lock is for. Who holds it or waits for it also holds a second key, shared, that has the mark.
type Mark int64

// The marks.
const (
	LeaderMark Mark = 0x706c
	TickMark   Mark = 0x7074
)

// Of returns the second key for key.
func (m Mark) Of(key driver.KeyID) driver.KeyID {
	return driver.KeyID{Space: driver.SpacePair, Number: int64(m)<<markShift | int64(fold(key, markShift))}
}

// IsMark reports whether key is such a second key.
func IsMark(key driver.KeyID) bool {
	mark := Mark(key.Number >> markShift)
	return key.Space == driver.SpacePair && (mark == LeaderMark || mark == TickMark)
}

// SemaphorePrefix is the prefix of the names that [SemaphoreName] makes.
const SemaphorePrefix = "pglock:semaphore:"

// SemaphoreName returns the name of a semaphore in a registry: its user's key, as text, and its limit.
func SemaphoreName(key string, limit int) string {
	return fmt.Sprintf("%s%d:%s", SemaphorePrefix, limit, key)
}

// ParseSemaphoreName is the inverse of SemaphoreName.
func ParseSemaphoreName(name string) (key string, limit int, ok bool) {
	rest, is := strings.CutPrefix(name, SemaphorePrefix)
	number, key, found := strings.Cut(rest, ":")
	if !is || !found {
		return "", 0, false
	}
	limit, err := strconv.Atoi(number)
	return key, limit, err == nil && limit >= 1 && limit <= MaxSlots
}
