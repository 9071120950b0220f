package wire

import (
	"net"
	"os"
	"sync"
	"syscall"
)

// Watcher watches the idle connections of one backend with one epoll instance (epoll(7)), which the Go runtime's own poller
// watches in turn: so it takes a goroutine, and no thread. Arming and disarming is one system call each.
type Watcher struct {
	file *os.File // the epoll instance
	fd   int

	mu      sync.Mutex
	last    int32
	watches map[int32]*descriptor
}

// NewWatcher makes a Watcher, which Close ends.
func NewWatcher() (*Watcher, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // which makes it one that the runtime polls
		return nil, os.NewSyscallError("fcntl", err)
	}
	w := &Watcher{file: os.NewFile(uintptr(fd), "epoll"), fd: fd, watches: map[int32]*descriptor{}}
	raw, err := w.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	go w.run(raw)
	return w, nil
}

// Close ends the watching of all connections.
func (w *Watcher) Close() error { return w.file.Close() }

// run reports events until the instance is closed.
func (w *Watcher) run(raw syscall.RawConn) {
	var events [16]syscall.EpollEvent
	for {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			n, _ = syscall.EpollWait(int(fd), events[:], 0) // an error is no event, and is tried again
			return n > 0
		})
		if err != nil {
			return
		}
		for _, event := range events[:n] {
			w.mu.Lock()
			notify := func() {}
			if d := w.watches[event.Fd]; d != nil {
				notify = d.notify
			}
			w.mu.Unlock()
			notify()
		}
	}
}

// descriptor is the Watch of a connection that has one.
type descriptor struct {
	watcher     *Watcher
	raw         syscall.RawConn
	id          int32 // what the events carry
	notify      func()
	arm, disarm func(fd uintptr)
}

func hasDescriptor(conn net.Conn) bool {
	_, ok := conn.(syscall.Conn)
	return ok
}

func (w *Watcher) watchDescriptor(conn net.Conn) Watch {
	c, ok := conn.(syscall.Conn)
	if !ok || w == nil || w.file == nil {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	d := &descriptor{watcher: w, raw: raw, id: w.last, notify: func() {}}
	d.arm = d.control(syscall.EPOLL_CTL_MOD, syscall.EPOLLIN|syscall.EPOLLRDHUP|epollOneShot)
	d.disarm = d.control(syscall.EPOLL_CTL_MOD, 0)
	w.watches[d.id] = d
	d.do(d.control(syscall.EPOLL_CTL_ADD, 0))
	return d
}

// control returns what does epoll_ctl(2). It fails only for a connection that is closed, which the next use finds out.
func (d *descriptor) control(op int, events uint32) func(uintptr) {
	return func(fd uintptr) {
		_ = syscall.EpollCtl(d.watcher.fd, op, int(fd), &syscall.EpollEvent{Events: events, Fd: d.id})
	}
}

func (d *descriptor) do(control func(uintptr)) { _ = d.raw.Control(control) }

func (d *descriptor) Notify(notify func()) {
	d.watcher.mu.Lock()
	defer d.watcher.mu.Unlock()
	d.notify = notify
}

func (d *descriptor) Arm()    { d.do(d.arm) }
func (d *descriptor) Disarm() { d.do(d.disarm) }

// Forget forgets the connection; with its socket the system does.
func (d *descriptor) Forget() {
	d.watcher.mu.Lock()
	defer d.watcher.mu.Unlock()
	delete(d.watcher.watches, d.id)
}

const epollOneShot = 1 << 30 // EPOLLONESHOT, which package syscall lacks
