package httpapp

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
)

const (
	// snippetBytes of a failure's body are read for the error text.
	snippetBytes = 8 << 10
	// drainBytes of the rest are read to keep the connection; a longer rest
	// costs more than a new one.
	drainBytes = 64 << 10
	// headerBytes bounds a response's header.
	headerBytes = 64 << 10
)

// reply is what the status table needs of a response.
type reply struct {
	status  int
	header  http.Header
	body    []byte // of JSON when the task is done, else the start of any text
	tooLong bool   // the body of a 2xx response was over the limit
}

// read takes in response. It fails only for a 2xx response that
// broke off: all other statuses say enough without their body.
func read(response *http.Response, limit int64) (reply, error) {
	r := reply{status: response.StatusCode, header: response.Header}
	switch {
	case r.status == http.StatusSwitchingProtocols:
		// The body is the connection now and may never end.
	case r.status == http.StatusAccepted:
		_, _ = io.CopyN(io.Discard, response.Body, drainBytes)
	case r.status >= 200 && r.status < 300:
		return readDone(r, response, limit)
	default:
		r.body, _ = io.ReadAll(io.LimitReader(response.Body, snippetBytes))
		_, _ = io.CopyN(io.Discard, response.Body, drainBytes)
	}
	return r, nil
}

// readDone reads the body of a 2xx response to its end, also when it isn't
// kept: only then has the app finished.
func readDone(r reply, response *http.Response, limit int64) (reply, error) {
	if response.ContentLength > limit {
		r.tooLong = true
		return r, nil
	}
	body := io.LimitReader(response.Body, limit+1)
	if !isJSON(r.header.Get(headerContentType)) {
		n, err := io.Copy(io.Discard, body)
		r.tooLong = n > limit
		return r, err
	}
	var err error
	if n := response.ContentLength; n > 0 {
		r.body = make([]byte, n)
		_, err = io.ReadFull(body, r.body)
	} else {
		r.body, err = io.ReadAll(body)
	}
	if int64(len(r.body)) > limit {
		r.body, r.tooLong = nil, true
	}
	return r, err
}

// isJSON says whether a Content-Type is application/json or ends in +json.
func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return false
	}
	return media == "application/json" || strings.HasSuffix(media, "+json")
}
