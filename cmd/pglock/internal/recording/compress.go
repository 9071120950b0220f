package recording

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

// compressor compresses lines. What it returns for each can be read without what follows.
type compressor struct {
	encoder *zstd.Encoder
	out     bytes.Buffer
	content int64 // bytes before compression
}

// newCompressor returns a compressor for lines of about a size. It looks back over several of them.
func newCompressor(size int) (*compressor, error) {
	const least = 1 << 18
	window := min(max(1<<bits.Len(uint(4*size)), least), maxWindow)
	c := &compressor{}
	var err error
	c.encoder, err = zstd.NewWriter(&c.out, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	return c, err
}

func (c *compressor) add(line []byte) ([]byte, error) {
	c.out.Reset()
	c.content += int64(len(line))
	_, err := c.encoder.Write(line)
	err = errors.Join(err, c.encoder.Flush())
	return c.out.Bytes(), err
}

func (c *compressor) end() ([]byte, error) {
	c.out.Reset()
	err := c.encoder.Close()
	return c.out.Bytes(), err
}

// lineReader reads the lines of a compressed stream, of at most maxContent bytes.
type lineReader struct {
	decoder *zstd.Decoder
	limit   io.LimitedReader
	lines   *bufio.Reader
	long    []byte
}

func newLineReader(r io.Reader) (*lineReader, error) {
	decoder, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	l := &lineReader{decoder: decoder, limit: io.LimitedReader{R: decoder, N: maxContent + int64(maxLine)}}
	l.lines = bufio.NewReaderSize(&l.limit, 1<<16)
	return l, nil
}

func (l *lineReader) close() { l.decoder.Close() }

// next returns the next line, which is valid until the next call. A stream that was cut, as that of a recorder that was
// killed, ends with io.EOF after its last whole line.
func (l *lineReader) next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		line, err := l.lines.ReadSlice('\n')
		switch {
		case err == nil && len(l.long) == 0:
			return line, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, l.readError(err)
		case len(l.long)+len(line) > maxLine:
			return nil, fmt.Errorf("%w: a line of more than %d MB", ErrCorrupt, maxLine>>20)
		}
		if l.long = append(l.long, line...); err == nil {
			return l.long, nil
		}
	}
}

func (l *lineReader) readError(err error) error {
	switch {
	case l.limit.N <= 0:
		return fmt.Errorf("%w: it has more content than a recorder writes to a file", ErrCorrupt)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return io.EOF
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}
