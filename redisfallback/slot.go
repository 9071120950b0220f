package redisfallback

import (
	"strconv"
	"strings"
	"sync"
)

// slots is how many hash slots a Redis Cluster has
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/).
const slots = 16384

// slotOf returns the hash slot of a Redis key: that of what is between its first { and the next }, if that is
// anything, and of the whole key otherwise.
func slotOf(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	return int(crc16(key)) % slots
}

// crc16 is CRC-16/XMODEM, as the cluster specification has it.
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

// tags returns, for each slot, what a key begins with that is to be in it: "{3x}:pglock:", with the smallest number, in
// base 36, that hashes to the slot. Before a name it decides, whatever braces the name contains.
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
