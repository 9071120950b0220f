package keytext

import "strings"

// ScanInt returns the length of the integer that text begins with, or -1. So do the others, for values of their types.
func ScanInt(text string) int {
	digits := strings.TrimPrefix(text, "-")
	n := 0
	for n < len(digits) && digits[n] >= '0' && digits[n] <= '9' {
		n++
	}
	if n == 0 || (digits[0] == '0' && (n > 1 || len(digits) < len(text))) {
		return -1
	}
	return len(text) - len(digits) + n
}

// ScanText is [ScanInt] for a text, which may be empty.
func ScanText(text string) int {
	n := 0
	for n < len(text) {
		switch {
		case strings.IndexByte(Specials, text[n]) < 0:
			n++
		case isEscape(text[n:]):
			n += 3
		case text[n] == Escape:
			return -1
		default:
			return n
		}
	}
	return n
}

func isEscape(text string) bool {
	for _, s := range []byte(Specials) {
		if strings.HasPrefix(text, EscapeOf(s)) {
			return true
		}
	}
	return false
}

// ScanBool is [ScanInt] for a boolean.
func ScanBool(text string) int {
	for _, value := range []string{"true", "false"} {
		if strings.HasPrefix(text, value) {
			return len(value)
		}
	}
	return -1
}

// ScanUUID is [ScanInt] for a uuid.
func ScanUUID(text string) int {
	const length = 36
	if len(text) < length {
		return -1
	}
	for i, b := range []byte(text[:length]) {
		if strings.IndexByte(UUIDBytes(i), b) < 0 {
			return -1
		}
	}
	return length
}

// UUIDBytes are the bytes that may be at index i of a uuid.
func UUIDBytes(i int) string {
	switch i {
	case 8, 13, 18, 23:
		return "-"
	}
	return "0123456789abcdef"
}
