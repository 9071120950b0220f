package wiretest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"sync"
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

// certificate makes a certificate without contents, for clients that do not verify it.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})
