package httpapp

import (
	"strconv"
	"time"

	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// timeLayout is RFC 3339 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// acceptDefault asks frameworks for errors in JSON rather than a page.
const acceptDefault = "application/json, text/plain;q=0.9, */*;q=0.1"

// request is one to the app, whichever HTTP it goes out in.
type request struct {
	method string
	path   string  // escaped, with its query if there is one
	fields []field // in the order they are sent; Host and Content-Length aren't among them
	body   []byte
	last   bool // the connection isn't kept
}

// field is a header field. Its name is in the form that net/http keeps it, its value
// fit to be sent.
type field struct{ name, value string }

// typicalFields of a request are no more than these.
const typicalFields = 24

func (r *request) set(name, value string) { r.fields = append(r.fields, field{name, value}) }

// post is the request that hands task to the app.
func (d *Dispatcher) post(task *dispatch.Task, now time.Time) *request {
	r := d.about(task, "POST", d.target.path(task.Kind))
	r.body = []byte(task.Args)
	if len(r.body) == 0 {
		r.body = []byte("{}")
	}
	r.set(headerContentType, "application/json")
	r.set(headerCESpecVersion, "1.0")
	r.set(headerCEID, strconv.FormatInt(task.ID, 10))
	r.set(headerCESource, d.source)
	r.set(headerCEType, encodeValue(task.Kind))
	r.set(headerCESubject, encodeValue(task.Queue))
	if !task.CreatedAt.IsZero() {
		r.set(headerCETime, task.CreatedAt.UTC().Format(timeLayout))
	}
	r.set(headerMaxAttempts, strconv.Itoa(task.MaxAttempts))
	if !task.Deadline.IsZero() {
		r.set(headerDeadline, task.Deadline.UTC().Format(timeLayout))
	}
	if d.api != "" {
		r.set(headerAPI, d.api+"/v1/tasks/"+strconv.FormatInt(task.ID, 10))
	}
	d.sign(r, task, now)
	r.passThrough(task.Headers)
	if !r.has(headerAccept) {
		r.set(headerAccept, acceptDefault)
	}
	return r
}

// about is a request with what each about a task says.
func (d *Dispatcher) about(task *dispatch.Task, method, path string) *request {
	r := &request{method: method, path: path, fields: make([]field, 0, typicalFields)}
	r.set(headerUserAgent, d.userAgent)
	r.set(headerTaskID, strconv.FormatInt(task.ID, 10))
	r.set(headerQueue, encodeValue(task.Queue))
	r.set(headerAttempt, strconv.Itoa(task.Attempt))
	r.set(headerLease, task.Lease.String())
	if task.Batch != "" {
		r.set(headerBatch, encodeValue(task.Batch))
	}
	return r
}

func (d *Dispatcher) sign(r *request, task *dispatch.Task, now time.Time) {
	if len(d.keys) == 0 {
		return
	}
	id, timestamp := strconv.FormatInt(task.ID, 10), strconv.FormatInt(now.Unix(), 10)
	r.set(headerWebhookID, id)
	r.set(headerWebhookTimestamp, timestamp)
	r.set(headerWebhookSignature, sign(d.keys, id, timestamp, r.body))
}
