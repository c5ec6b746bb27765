package routing_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// listener keeps the payloads of a channel.
type listener struct {
	mu       sync.Mutex
	payloads []string
}

func listen(t *testing.T, f *fleet, channel string) *listener {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.dsn)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "LISTEN "+pgx.Identifier{channel}.Sanitize())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				return
			}
			l.mu.Lock()
			l.payloads = append(l.payloads, n.Payload)
			l.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = conn.Close(context.Background())
	})
	return l
}

// drop returns what came since the last time.
func (l *listener) drop() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	payloads := l.payloads
	l.payloads = nil
	return payloads
}
