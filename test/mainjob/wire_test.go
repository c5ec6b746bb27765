package mainjob_test

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// wireMode is what a wire does with bytes.
type wireMode int

const (
	// wirePass forwards both ways.
	wirePass wireMode = iota
	// wireMute delivers what the sidecar says and swallows every answer.
	wireMute
	// wireFrozen swallows both ways and keeps the connections: a partition.
	wireFrozen
	// wireStalled holds what was said until the mode changes, and delivers it
	// then, whoever has hung up meanwhile.
	wireStalled
	// wireAway has no connections and refuses new ones: Postgres is down.
	wireAway
)

// wire is the network between a sidecar and Postgres, in the test's hands.
type wire struct {
	dsn      string // Postgres as seen through the wire
	listener net.Listener
	network  string
	address  string

	mu    sync.Mutex
	mode  wireMode
	moved chan struct{} // closed and replaced when the mode changes
	conns map[net.Conn]struct{}
	lose  *loss // the next answer to lose, or nil
	wg    sync.WaitGroup
}

func newWire(t *testing.T, dsn string) *wire {
	t.Helper()
	config, err := pgconn.ParseConfig(dsn)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	w := &wire{listener: listener, moved: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	w.network, w.address = pgconn.NetworkAddress(config.Host, config.Port)
	through := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(config.User, config.Password),
		Host:     listener.Addr().String(),
		Path:     "/" + config.Database,
		RawQuery: "sslmode=disable",
	}
	w.dsn = through.String()

	w.wg.Go(w.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		w.set(wireAway)
		w.wg.Wait()
	})
	return w
}

func (w *wire) accept() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.wg.Go(func() { w.join(near) })
	}
}

// join connects near to Postgres and returns when either side is gone.
func (w *wire) join(near net.Conn) {
	defer near.Close()
	if !w.keep(near) {
		return
	}
	defer w.forget(near)
	far, err := net.Dial(w.network, w.address)
	if err != nil {
		return
	}
	defer far.Close()
	if !w.keep(far) {
		return
	}
	defer w.forget(far)

	var both sync.WaitGroup
	both.Go(func() { w.copy(far, near, wireFrozen) })
	both.Go(func() { w.copy(near, far, wireFrozen, wireMute) })
	both.Wait()
}

// copy forwards from one side to the other, except in the swallowing modes.
func (w *wire) copy(to, from net.Conn, swallow ...wireMode) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	muted := false
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		muted = muted || w.loses(buffer[:n], func() { _, _ = to.Close(), from.Close() })
		if muted || w.swallows(swallow) {
			continue
		}
		w.awaitMovement()
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// awaitMovement returns when the wire isn't stalled.
func (w *wire) awaitMovement() {
	for {
		w.mu.Lock()
		stalled, moved := w.mode == wireStalled, w.moved
		w.mu.Unlock()
		if !stalled {
			return
		}
		<-moved
	}
}

func (w *wire) swallows(modes []wireMode) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, mode := range modes {
		if w.mode == mode {
			return true
		}
	}
	return false
}

func (w *wire) keep(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mode == wireAway {
		return false
	}
	w.conns[conn] = struct{}{}
	return true
}

func (w *wire) forget(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, conn)
}

// set changes the mode. A change away from a mode that swallowed bytes also
// cuts the connections, whose streams have holes now.
func (w *wire) set(mode wireMode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	holes := w.mode == wireMute || w.mode == wireFrozen
	w.mode = mode
	close(w.moved)
	w.moved = make(chan struct{})
	if mode == wireAway || holes {
		for conn := range w.conns {
			_ = conn.Close()
		}
	}
}
