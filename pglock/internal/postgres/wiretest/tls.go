package wiretest

import (
	"crypto/tls"
	"net"
	"net/http/httptest"
)

// halved is a connection that can stop in the middle of a write.
type halved struct {
	net.Conn
	half func() // called once, when half of the next write has been written
}

func (h *halved) Write(b []byte) (n int, err error) {
	if half := h.half; half != nil {
		h.half = nil
		if n, err = h.Conn.Write(b[:len(b)/2]); err != nil {
			return n, err
		}
		half()
	}
	rest, err := h.Conn.Write(b[n:])
	return n + rest, err
}

// certificates are those of a test server of the standard library.
func certificates() []tls.Certificate {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return server.TLS.Certificates
}
