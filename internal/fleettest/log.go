package fleettest

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
)

// Log keeps what a process prints.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes a piece of output; it never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Tail is its last lines.
func (l *Log) Tail(lines int) string {
	all := strings.Split(strings.TrimRight(l.String(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// adminAddress finds the line that names the admin listener's address.
func (l *Log) adminAddress() string {
	for line := range strings.Lines(l.String()) {
		var entry struct {
			Msg  string `json:"msg"`
			Addr string `json:"addr"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Addr != "" && (strings.Contains(entry.Msg, "ready") || strings.Contains(entry.Msg, "admin")) {
			return "http://" + entry.Addr
		}
	}
	return ""
}
