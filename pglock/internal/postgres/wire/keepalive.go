package wire

import (
	"net"
	"strconv"
	"time"
)

// keepAliveWithin returns keepalive settings with which a silent peer is noticed within the lease, or within two
// seconds for a shorter one: TCP counts in whole seconds.
func keepAliveWithin(lease time.Duration) net.KeepAliveConfig {
	every := max(time.Second, (lease / 5).Truncate(time.Second))
	count := max(1, min(3, int((lease-every)/every)))
	return net.KeepAliveConfig{Enable: true, Idle: every, Interval: every, Count: count}
}

// setKeepAlive sets the client's keepalives. Connections other than TCP (a Unix socket, a caller's own DialFunc) have none.
func setKeepAlive(conn net.Conn, config net.KeepAliveConfig) error {
	if tcp, ok := Bare(conn).(*net.TCPConn); ok {
		return tcp.SetKeepAliveConfig(config)
	}
	return nil
}

// Bare returns the connection under TLS.
func Bare(conn net.Conn) net.Conn {
	for {
		secured, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = secured.NetConn()
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
func seconds(d time.Duration) string      { return strconv.FormatInt(int64(d.Seconds()), 10) }
