package recording

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"time"
)

// A frame consists of its type in a byte, the length of its payload and the checksum of type, length and payload in four
// bytes each (little endian, CRC-32C), and the payload.
const frameHeader = 9

func appendFrame(b []byte, t Type, payload []byte) []byte {
	var head [frameHeader]byte
	head[0] = byte(t)
	binary.LittleEndian.PutUint32(head[1:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(head[5:], checksum(head[:5], payload))
	return append(append(b, head[:]...), payload...)
}

func checksum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

// Info precedes the body of a snapshot frame, uncompressed, so that a timeline can be drawn without reading snapshots.
type Info struct {
	// Type is TypeKey or TypeDelta.
	Type Type `json:"-"`
	// At is the server's clock, Wall the recorder's, and Elapsed the time since the recorder started, by a monotonic
	// clock.
	At      time.Time     `json:"at"`
	Wall    time.Time     `json:"-"`
	Elapsed time.Duration `json:"-"`
	// The number of waiters and of certain deadlocks in the snapshot, and its longest wait.
	Waiters   int           `json:"waiters"`
	Deadlocks int           `json:"deadlocks"`
	Longest   time.Duration `json:"-"`
}

const infoSize = 8 + 8 + 8 + 4 + 4 + 8

func (i Info) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(i.At.UnixMicro()))
	b = binary.LittleEndian.AppendUint64(b, uint64(i.Wall.UnixMicro()))
	b = binary.LittleEndian.AppendUint64(b, uint64(i.Elapsed.Microseconds()))
	b = binary.LittleEndian.AppendUint32(b, uint32(i.Waiters))
	b = binary.LittleEndian.AppendUint32(b, uint32(i.Deadlocks))
	return binary.LittleEndian.AppendUint64(b, uint64(i.Longest.Microseconds()))
}

// latest and earliest are the limits, in the years 9999 and 1, of the times that JSON can hold.
const (
	latest   = 253402300799 * 1_000_000
	earliest = -62135596800 * 1_000_000
)

func instantOf(micros int64) (time.Time, error) {
	if micros < earliest || micros > latest {
		return time.Time{}, corrupt("a time out of range")
	}
	return time.UnixMicro(micros).UTC(), nil
}

func readInfo(t Type, payload []byte) (i Info, err error) {
	if len(payload) < infoSize {
		return i, corrupt("a snapshot frame of %d bytes", len(payload))
	}
	word := func(at int) int64 { return int64(binary.LittleEndian.Uint64(payload[at:])) }
	i.Type = t
	if i.At, err = instantOf(word(0)); err != nil {
		return i, err
	}
	if i.Wall, err = instantOf(word(8)); err != nil {
		return i, err
	}
	const most = math.MaxInt64 / 1000
	if word(16) > most || word(16) < -most || word(32) > most || word(32) < -most {
		return i, corrupt("a duration out of range")
	}
	i.Elapsed = time.Duration(word(16)) * time.Microsecond
	i.Waiters = int(binary.LittleEndian.Uint32(payload[24:]))
	i.Deadlocks = int(binary.LittleEndian.Uint32(payload[28:]))
	i.Longest = time.Duration(word(32)) * time.Microsecond
	return i, nil
}

// raw is a frame of a file.
type raw struct {
	kind    Type
	offset  int64 // of the frame
	payload []byte
}

// errTruncated means that a file ends in the middle of a frame, as after a crash of its writer or machine.
var errTruncated = fmt.Errorf("the recording ends in the middle of a frame: %w", io.ErrUnexpectedEOF)

// rawReader reads the frames of a file, one after another.
type rawReader struct {
	r      io.Reader
	offset int64
	buffer []byte
}

// next returns io.EOF after the last frame. The payload is valid until the next call.
func (r *rawReader) next() (raw, error) {
	var head [frameHeader]byte
	switch n, err := io.ReadFull(r.r, head[:]); {
	case err == io.EOF:
		return raw{}, io.EOF
	case err == io.ErrUnexpectedEOF || n < frameHeader && err == nil:
		return raw{}, errTruncated
	case err != nil:
		return raw{}, err
	}
	length := binary.LittleEndian.Uint32(head[1:])
	if length > maxFrame {
		return raw{}, r.damaged(fmt.Sprintf("a frame of %d bytes", length))
	}
	payload, err := r.read(int(length))
	if err != nil {
		return raw{}, err
	}
	if checksum(head[:5], payload) != binary.LittleEndian.Uint32(head[5:]) {
		return raw{}, r.damaged("a frame with a wrong checksum")
	}
	frame := raw{Type(head[0]), r.offset, payload}
	r.offset += frameHeader + int64(length)
	return frame, nil
}

// read reads in pieces, so that a false length in a hostile file allocates no more memory than the file's size.
func (r *rawReader) read(length int) ([]byte, error) {
	const piece = 1 << 20
	r.buffer = r.buffer[:0]
	for len(r.buffer) < length {
		n := min(piece, length-len(r.buffer))
		start := len(r.buffer)
		r.buffer = append(r.buffer, make([]byte, n)...)
		if _, err := io.ReadFull(r.r, r.buffer[start:]); err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, errTruncated
		} else if err != nil {
			return nil, err
		}
	}
	return r.buffer, nil
}

// damaged distinguishes a file that a crash has cut, in which at most zeros follow, from a corrupt one.
func (r *rawReader) damaged(what string) error {
	rest := make([]byte, 64<<10)
	for {
		n, err := r.r.Read(rest)
		if slices.ContainsFunc(rest[:n], func(b byte) bool { return b != 0 }) {
			return corrupt("%s at offset %d", what, r.offset)
		}
		if err != nil {
			return errTruncated
		}
	}
}
