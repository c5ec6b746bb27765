package dev

import (
	"io"
	"os"
	"time"
)

const followInterval = 100 * time.Millisecond

// follow passes on what is added to a file, until the returned function is called.
func (c *console) follow(from source, path string) (stop func(), err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		_ = file.Close()
		return nil, err
	}
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = file.Close() }()
		out := c.writer(from)
		defer out.flush()
		tick := time.NewTicker(followInterval)
		defer tick.Stop()
		for {
			_, _ = io.Copy(out, file) // up to its present end
			select {
			case <-stopped:
				_, _ = io.Copy(out, file)
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		close(stopped)
		<-done
	}, nil
}
