package recording

import (
	"encoding/binary"
	"encoding/json"
	"time"
)

// parser reads a body. After an error it returns zeros.
type parser struct {
	rest []byte
	base int64
	err  error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = corrupt(format, args...)
	}
	p.rest = nil
}

func (p *parser) uint() uint64 {
	n, size := binary.Uvarint(p.rest)
	if size <= 0 {
		p.fail("a number is cut")
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

func (p *parser) int() int64 {
	n, size := binary.Varint(p.rest)
	if size <= 0 {
		p.fail("a number is cut")
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

// count reads the number of items that follow, each of which takes at least a byte.
func (p *parser) count() int {
	n := p.uint()
	if n > uint64(len(p.rest)) {
		p.fail("%d things in %d bytes", n, len(p.rest))
		return 0
	}
	return int(n)
}

// limited reads a count of at most most.
func (p *parser) limited(most int) int {
	n := p.count()
	if n > most {
		p.fail("%d things, more than %d", n, most)
		return 0
	}
	return n
}

func (p *parser) text() string {
	n := p.count()
	text := string(p.rest[:n])
	p.rest = p.rest[n:]
	return text
}

func (p *parser) json(to any) {
	n := p.count()
	text := p.rest[:n]
	p.rest = p.rest[n:]
	if p.err != nil {
		return
	}
	if err := json.Unmarshal(text, to); err != nil {
		p.fail("%v", err)
	}
}

func (p *parser) time() *time.Time {
	if p.uint() == 0 {
		return nil
	}
	ago := p.int()
	at, err := instantOf(p.base - ago)
	if err != nil || ago > 2*latest || ago < -2*latest {
		p.fail("a time out of range")
		return nil
	}
	return &at
}

// slotList reads ascending slots.
func (p *parser) slotList(length int) []uint64 {
	n := p.count()
	slots := make([]uint64, 0, n)
	slot := uint64(0)
	for range n {
		if slot += p.uint(); slot >= uint64(length) {
			p.fail("slot %d of %d", slot, length)
			return nil
		}
		slots = append(slots, slot)
	}
	return slots
}
