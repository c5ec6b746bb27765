package taskapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// readBody reads a request's body, or says why it could not.
func (h *handler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	// Not every server can set a deadline; those that can't have their own.
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(h.options.BodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.options.MaxBodyBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, contentTooLarge(h.options.MaxBodyBytes)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, requestTimeout(h.options.BodyTimeout)
	case err != nil:
		return nil, badRequest("the body ended early; the task is unchanged, call again")
	}
	// The server reads on to see whether the app hangs up, with an empty body
	// since before the deadline was set. That it is quiet is no hang-up.
	_ = conn.SetReadDeadline(time.Time{})
	return body, nil
}
