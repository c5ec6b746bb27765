package httpapp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// timeLayout is RFC 3339 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// constantHeaders are the values that all requests share. net/http only reads
// them.
type constantHeaders struct {
	accept, contentType, specVersion, source, userAgent []string
}

// headerWriter sets header values that share one backing array, which saves an
// allocation for each.
type headerWriter struct {
	header http.Header
	values []string
}

func newHeaderWriter() *headerWriter {
	return &headerWriter{header: make(http.Header, 24), values: make([]string, 0, 16)}
}

func (w *headerWriter) set(name, value string) {
	w.values = append(w.values, value)
	n := len(w.values)
	w.header[name] = w.values[n-1 : n : n]
}

// post is the request that hands task to the app.
func (d *Dispatcher) post(ctx context.Context, task *dispatch.Task, now time.Time) *http.Request {
	body := []byte(task.Args)
	if len(body) == 0 {
		body = []byte("{}")
	}
	w := newHeaderWriter()
	d.describe(w, task)
	w.header[headerContentType] = d.constant.contentType
	w.header[headerCESpecVersion] = d.constant.specVersion
	w.header[headerCESource] = d.constant.source
	w.set(headerCEID, strconv.FormatInt(task.ID, 10))
	w.set(headerCEType, encodeValue(task.Kind))
	w.set(headerCESubject, encodeValue(task.Queue))
	if !task.CreatedAt.IsZero() {
		w.set(headerCETime, task.CreatedAt.UTC().Format(timeLayout))
	}
	w.set(headerMaxAttempts, strconv.Itoa(task.MaxAttempts))
	if !task.Deadline.IsZero() {
		w.set(headerDeadline, task.Deadline.UTC().Format(timeLayout))
	}
	if d.api != "" {
		w.set(headerAPI, d.api+"/v1/tasks/"+strconv.FormatInt(task.ID, 10))
	}
	d.sign(w, task, now, body)
	passThrough(w.header, task.Headers)
	if w.header[headerAccept] == nil {
		w.header[headerAccept] = d.constant.accept
	}
	return d.request(ctx, http.MethodPost, d.target.url(task.Kind), w.header, body)
}

// describe sets what every request about a task says.
func (d *Dispatcher) describe(w *headerWriter, task *dispatch.Task) {
	w.header[headerUserAgent] = d.constant.userAgent
	w.set(headerTaskID, strconv.FormatInt(task.ID, 10))
	w.set(headerQueue, encodeValue(task.Queue))
	w.set(headerAttempt, strconv.Itoa(task.Attempt))
	w.set(headerLease, task.Lease.String())
	if task.Batch != "" {
		w.set(headerBatch, encodeValue(task.Batch))
	}
}

func (d *Dispatcher) sign(w *headerWriter, task *dispatch.Task, now time.Time, body []byte) {
	if len(d.keys) == 0 {
		return
	}
	id, timestamp := strconv.FormatInt(task.ID, 10), strconv.FormatInt(now.Unix(), 10)
	w.set(headerWebhookID, id)
	w.set(headerWebhookTimestamp, timestamp)
	w.set(headerWebhookSignature, sign(d.keys, id, timestamp, body))
}

func (d *Dispatcher) request(ctx context.Context, method string, u *url.URL, header http.Header, body []byte) *http.Request {
	request := &http.Request{
		Method:     method,
		URL:        u,
		Host:       u.Host,
		Header:     header,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
	}
	if len(body) > 0 {
		request.ContentLength = int64(len(body))
		request.Body = io.NopCloser(bytes.NewReader(body))
		// GetBody lets net/http start over when it wrote nothing. With one of these
		// headers it would also re-send what the app may have begun, on one kept
		// connection after another.
		if header["Idempotency-Key"] == nil && header["X-Idempotency-Key"] == nil {
			request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		}
	}
	return request.WithContext(ctx)
}
