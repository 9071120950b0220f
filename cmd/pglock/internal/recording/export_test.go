package recording

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
)

const (
	Other    = memberOther
	Keyframe = memberKeyframe
	Change   = memberChange

	ElementsPerByte = elementsPerByte
	FreeElements    = freeElements
)

// HostileMember returns a member with any content, however well it is compressed.
func HostileMember(kind memberKind, text []byte) []byte {
	b := bytes.NewBuffer(make([]byte, headerSize))
	deflate, err := flate.NewWriter(b, flate.DefaultCompression)
	if err == nil {
		_, err = deflate.Write(text)
	}
	if err == nil {
		err = deflate.Close()
	}
	if err != nil {
		panic(err)
	}
	member := binary.LittleEndian.AppendUint32(b.Bytes(), crc32.ChecksumIEEE(text))
	member = binary.LittleEndian.AppendUint32(member, uint32(len(text)))
	mark{Length: uint32(len(member)), Kind: kind, At: noon.UnixMicro()}.putHeader(member[:headerSize])
	return member
}
