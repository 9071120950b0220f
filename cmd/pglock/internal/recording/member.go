package recording

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"
)

// A member is a gzip member (RFC 1952) whose header has an extra field with the mark, and a checksum of the header. So
// every changed bit is noticed, and a reader that wants another time goes from header to header.
//
// Package compress/gzip reads members, but cannot write the header's checksum.
const (
	headerSize  = 12 + 4 + markSize + 2
	markSize    = 29
	trailerSize = 8
)

// mark is the content of the extra field, in little-endian order.
type mark struct {
	Length    uint32 // of the member in bytes
	Kind      memberKind
	At        int64 // microseconds since 1970
	Waiters   uint32
	Deadlocks uint32
	Longest   int64 // microseconds
}

type memberKind uint8

const (
	memberOther    memberKind = 0 // has no snapshot
	memberKeyframe memberKind = 1
	memberChange   memberKind = 2
)

func (m mark) info() Info {
	return Info{At: time.UnixMicro(m.At).UTC(), Waiters: int(m.Waiters), Deadlocks: int(m.Deadlocks),
		Longest: time.Duration(m.Longest) * time.Microsecond}
}

// maxMember is the most bytes of a member.
const maxMember = 64 << 20

// maxInflated is how long the content of a member of that many bytes may be. Snapshots of many similar locks are
// compressed to a twentieth; deflate can reach a thousandth.
func maxInflated(member int) int { return 1<<10 + 24*member }

var deflaters = sync.Pool{New: func() any {
	deflate, err := flate.NewWriter(nil, flate.DefaultCompression)
	if err != nil {
		panic(err) // the level is valid
	}
	return deflate
}}

// pack returns a member. What is compressed so well that a reader would refuse it is only coded, to an eighth at best.
func pack(m mark, lines []byte) ([]byte, error) {
	deflate := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(deflate)
	member, err := packWith(deflate, m, lines)
	if err == nil && len(lines) > maxInflated(len(member)) {
		if deflate, err = flate.NewWriter(nil, flate.HuffmanOnly); err == nil {
			return packWith(deflate, m, lines)
		}
	}
	return member, err
}

func packWith(deflate *flate.Writer, m mark, lines []byte) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, headerSize, headerSize+len(lines)/8+trailerSize))
	deflate.Reset(b)
	if _, err := deflate.Write(lines); err != nil {
		return nil, err
	}
	if err := deflate.Close(); err != nil {
		return nil, err
	}
	member := binary.LittleEndian.AppendUint32(b.Bytes(), crc32.ChecksumIEEE(lines))
	member = binary.LittleEndian.AppendUint32(member, uint32(len(lines)))
	if len(member) > maxMember {
		return nil, fmt.Errorf("it takes %d bytes, more than a snapshot may have in a recording", len(member))
	}
	m.Length = uint32(len(member))
	m.putHeader(member[:headerSize])
	return member, nil
}

// prefix is the beginning of every header, without the time: deflate, with an extra field and a checksum.
const prefix = "\x1f\x8b\x08\x06"

func (m mark) putHeader(b []byte) {
	copy(b, prefix)
	binary.LittleEndian.PutUint32(b[4:], uint32(m.At/1e6)) // as gzip -l shows; it ends in 2106
	b[8], b[9] = 0, 255                                    // no special level, unknown operating system
	binary.LittleEndian.PutUint16(b[10:], 4+markSize)
	b[12], b[13] = 'P', 'L'
	binary.LittleEndian.PutUint16(b[14:], markSize)
	if _, err := binary.Encode(b[16:], binary.LittleEndian, m); err != nil {
		panic(err) // its size is constant
	}
	binary.LittleEndian.PutUint16(b[headerSize-2:], uint16(crc32.ChecksumIEEE(b[:headerSize-2])))
}

// markOf returns the mark of a header, or false if it is not one of ours.
func markOf(b []byte) (m mark, ok bool) {
	if !bytes.HasPrefix(b, []byte(prefix)) || b[12] != 'P' || b[13] != 'L' ||
		binary.LittleEndian.Uint16(b[10:]) != 4+markSize || binary.LittleEndian.Uint16(b[14:]) != markSize ||
		binary.LittleEndian.Uint16(b[headerSize-2:]) != uint16(crc32.ChecksumIEEE(b[:headerSize-2])) {
		return m, false
	}
	_, err := binary.Decode(b[16:], binary.LittleEndian, &m)
	return m, err == nil && m.Length >= headerSize+trailerSize && m.Length <= maxMember
}

// members goes through the members of a file from an offset on.
type members struct {
	source      io.ReaderAt
	offset, end int64
}

// next returns the next member and its offset, or io.EOF after the last whole one. After an error that matches
// ErrCorrupt it continues behind the damage.
func (r *members) next() (m mark, at int64, err error) {
	var head [headerSize]byte
	if r.end-r.offset < headerSize {
		return m, 0, io.EOF // the rest of a header that was being written
	}
	if _, err := r.source.ReadAt(head[:], r.offset); err != nil {
		return m, 0, err
	}
	at = r.offset
	m, ok := markOf(head[:])
	switch {
	case !ok:
		return m, at, r.skip()
	case at+int64(m.Length) > r.end:
		return m, at, io.EOF
	}
	r.offset += int64(m.Length)
	return m, at, nil
}

// skip goes to the next header. It returns io.EOF if only zeros follow, as after a crash of the machine.
func (r *members) skip() error {
	from, zeros := r.offset, true
	piece := make([]byte, 4<<10)
	for r.offset < r.end {
		n, err := r.source.ReadAt(piece[:min(int64(len(piece)), r.end-r.offset)], r.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		zeros = zeros && len(bytes.Trim(piece[:n], "\x00")) == 0
		for i := 0; ; i++ {
			found := bytes.Index(piece[i:n], []byte(prefix))
			if found < 0 || i+found+headerSize > n {
				break
			}
			i += found
			if _, ok := markOf(piece[i : i+headerSize]); ok && r.offset+int64(i) > from {
				r.offset += int64(i)
				return corrupt("%d bytes are damaged at offset %d", r.offset-from, from)
			}
		}
		if r.offset += int64(n - headerSize + 1); n < headerSize { // a header can begin in one piece and end in the next
			r.offset = r.end
		}
	}
	if zeros {
		return io.EOF
	}
	return corrupt("all is damaged from offset %d on", from)
}
