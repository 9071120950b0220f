package monitor

import (
	"encoding/binary"
	"math/bits"
)

// hashtext returns what PostgreSQL's function of that name returns for text in a deterministic collation, and with 64
// bits what hashtextextended(text, 0) returns: hash_bytes and hash_bytes_extended of src/common/hashfn.c on a
// little-endian machine, which are Bob Jenkins' lookup3. The functions are not documented, but many programs make
// lock keys with them.
func hashtext(text string) (short int32, long int64) {
	key := []byte(text)
	initial := 0x9e3779b9 + uint32(len(key)) + 3923095
	h := lookup3{initial, initial, initial}
	for ; len(key) >= 12; key = key[12:] {
		h.add(key)
		h.mix()
	}
	// The lowest byte of the last word is reserved for the length, so the last bytes stand one higher.
	var rest [12]byte
	if copy(rest[:], key); len(key) > 8 {
		copy(rest[9:], key[8:])
		rest[8] = 0
	}
	h.add(rest[:])
	b, c := h.finish()
	return int32(c), int64(uint64(b)<<32 | uint64(c))
}

type lookup3 struct{ a, b, c uint32 }

func (h *lookup3) add(key []byte) {
	h.a += binary.LittleEndian.Uint32(key)
	h.b += binary.LittleEndian.Uint32(key[4:])
	h.c += binary.LittleEndian.Uint32(key[8:])
}

func (h *lookup3) mix() {
	for _, by := range [...]int{4, 6, 8, 16, 19, 4} {
		a := (h.a - h.c) ^ bits.RotateLeft32(h.c, by)
		h.a, h.b, h.c = h.b, h.c+h.b, a // the next one is b; after six rounds each is back in its place
	}
}

// finish mixes the words once more.
func (h *lookup3) finish() (b, c uint32) {
	for _, by := range [...]int{14, 11, 25, 16, 4, 14, 24} {
		c := (h.c ^ h.b) - bits.RotateLeft32(h.b, by)
		h.a, h.b, h.c = h.b, c, h.a // the next one is a
	}
	return h.a, h.b // after seven rounds
}
