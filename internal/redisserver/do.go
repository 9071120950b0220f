package redisserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Do sends one command on a new connection, and returns the reply if it is a text or a number. An error from the
// server is also returned as the reply. It is for commands to the server itself; tests that use Redis have a client.
func (s *Server) Do(args ...string) (reply string, err error) {
	const timeout = 5 * time.Second
	conn, err := net.DialTimeout("tcp", s.Addr(), timeout)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := conn.Write([]byte(b.String())); err != nil {
		return "", err
	}
	return readReply(bufio.NewReader(conn))
}

// readReply reads a simple string, an error, an integer or a bulk string
// (https://redis.io/docs/latest/develop/reference/protocol-spec/).
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return text, nil
	case '-':
		return text, errors.New(text)
	case '$':
		length, err := strconv.Atoi(text)
		if err != nil || length < 0 {
			return "", err
		}
		bulk := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(r, bulk); err != nil {
			return "", err
		}
		return string(bulk[:length]), nil
	}
	return "", fmt.Errorf("a reply that is not understood here: %q", line)
}
