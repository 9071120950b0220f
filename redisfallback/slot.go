package redisfallback

import (
	"strconv"
	"strings"
	"sync"
)

// slots is how many hash slots a Redis Cluster has
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/).
const slots = 16384

// slotOf returns the hash slot of a Redis key. It hashes the part between the first { and the next }, or the whole key
// if there is no such part or it is empty.
func slotOf(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	return int(crc16(key)) % slots
}

// crc16 is CRC-16/XMODEM, as in the cluster specification.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^s[i]]
	}
	return crc
}

var crcTable = func() (table [256]uint16) {
	const polynomial = 0x1021
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ polynomial
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// tags returns a prefix for each slot that puts a key into it: "{3x}:pglock:", with the smallest number, in base 36,
// that hashes to the slot. It comes first, so braces in the name do not matter.
var tags = sync.OnceValue(func() *[slots]string {
	var table [slots]string
	for n, left := int64(0), slots; left > 0; n++ {
		tag := strconv.FormatInt(n, 36)
		if slot := slotOf(tag); table[slot] == "" {
			table[slot] = "{" + tag + "}:pglock:"
			left--
		}
	}
	return &table
})
