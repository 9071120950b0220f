package sqlcplugin

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The protobuf form, https://protobuf.dev/programming-guides/encoding: a message is a list of fields, each a number
// with a wire type and a value. The field numbers are those of sqlc's protos/plugin/codegen.proto.

// Wire types.
const (
	varint  = 0
	fixed64 = 1
	sized   = 2
	fixed32 = 5
)

var errTruncated = errors.New("the message ends in the middle of a field")

// field is a field's value: number for varints, and text for values with a length.
type field struct {
	number uint64
	text   []byte
}

// fields calls visit for each field of a message.
func fields(message []byte, visit func(number uint64, f field) error) error {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return errTruncated
		}
		f, rest, err := value(tag&7, message[n:])
		if err != nil {
			return err
		}
		if err := visit(tag>>3, f); err != nil {
			return err
		}
		message = rest
	}
	return nil
}

func value(wireType uint64, message []byte) (f field, rest []byte, err error) {
	var size uint64
	switch wireType {
	case varint:
		number, n := binary.Uvarint(message)
		if n <= 0 {
			return f, nil, errTruncated
		}
		return field{number: number}, message[n:], nil
	case fixed64:
		size = 8
	case fixed32:
		size = 4
	case sized:
		length, n := binary.Uvarint(message)
		if n <= 0 {
			return f, nil, errTruncated
		}
		size, message = length, message[n:]
	default:
		return f, nil, fmt.Errorf("wire type %d is unknown", wireType)
	}
	if size > uint64(len(message)) {
		return f, nil, errTruncated
	}
	return field{text: message[:size]}, message[size:], nil
}

func decode(message []byte) (r request, err error) {
	err = fields(message, func(number uint64, f field) error {
		switch number {
		case 1:
			return r.Settings.decode(f.text)
		case 3:
			return appendDecoded(&r.Queries, f.text, (*query).decode)
		case 4:
			r.SqlcVersion = string(f.text)
		case 5:
			r.PluginOptions = f.text
		}
		return nil
	})
	return r, err
}

func appendDecoded[T any](to *[]T, message []byte, decode func(*T, []byte) error) error {
	var one T
	err := decode(&one, message)
	*to = append(*to, one)
	return err
}

func (s *settings) decode(message []byte) error {
	return fields(message, func(number uint64, f field) error {
		switch number {
		case 2:
			s.Engine = string(f.text)
		case 4:
			s.Queries = append(s.Queries, string(f.text))
		case 12:
			return fields(f.text, func(number uint64, f field) error {
				switch number {
				case 1:
					s.Codegen.Out = string(f.text)
				case 2:
					s.Codegen.Plugin = string(f.text)
				}
				return nil
			})
		}
		return nil
	})
}

func (q *query) decode(message []byte) error {
	return fields(message, func(number uint64, f field) error {
		switch number {
		case 1:
			q.Text = string(f.text)
		case 2:
			q.Name = string(f.text)
		case 3:
			q.Cmd = string(f.text)
		case 5:
			return appendDecoded(&q.Params, f.text, (*parameter).decode)
		case 6:
			q.Comments = append(q.Comments, string(f.text))
		case 7:
			q.Filename = string(f.text)
		}
		return nil
	})
}

func (p *parameter) decode(message []byte) error {
	return fields(message, func(number uint64, f field) error {
		switch number {
		case 1:
			p.Number = int(f.number)
		case 2:
			return p.Column.decode(f.text)
		}
		return nil
	})
}

func (c *column) decode(message []byte) error {
	return fields(message, func(number uint64, f field) error {
		switch number {
		case 1:
			c.Name = string(f.text)
		case 3:
			c.NotNull = f.number != 0
		case 4:
			c.IsArray = f.number != 0
		case 12:
			return fields(f.text, func(number uint64, f field) error {
				switch number {
				case 2:
					c.Type.Schema = string(f.text)
				case 3:
					c.Type.Name = string(f.text)
				}
				return nil
			})
		case 13:
			c.IsSlice = f.number != 0
		case 17:
			c.ArrayDims = int(f.number)
		}
		return nil
	})
}

// encode returns a GenerateResponse with a file.
func encode(name string, contents []byte) []byte {
	return appendBytes(nil, 1, appendBytes(appendBytes(nil, 1, []byte(name)), 2, contents))
}

func appendBytes(message []byte, number uint64, text []byte) []byte {
	message = binary.AppendUvarint(message, number<<3|sized)
	message = binary.AppendUvarint(message, uint64(len(text)))
	return append(message, text...)
}
