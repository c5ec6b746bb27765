package httpapp

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Headers of a request, in the form that net/http keeps them.
const (
	headerAccept           = "Accept"
	headerContentType      = "Content-Type"
	headerUserAgent        = "User-Agent"
	headerCESpecVersion    = "Ce-Specversion"
	headerCEID             = "Ce-Id"
	headerCESource         = "Ce-Source"
	headerCEType           = "Ce-Type"
	headerCETime           = "Ce-Time"
	headerCESubject        = "Ce-Subject"
	headerTaskID           = "Sched-Task-Id"
	headerQueue            = "Sched-Queue"
	headerAttempt          = "Sched-Attempt"
	headerMaxAttempts      = "Sched-Max-Attempts"
	headerLease            = "Sched-Lease"
	headerDeadline         = "Sched-Deadline"
	headerBatch            = "Sched-Batch"
	headerReason           = "Sched-Reason"
	headerAPI              = "Sched-Api"
	headerWebhookID        = "Webhook-Id"
	headerWebhookTimestamp = "Webhook-Timestamp"
	headerWebhookSignature = "Webhook-Signature"
)

// Headers of a response.
const (
	headerNoRetry    = "Sched-No-Retry"
	headerRetryAfter = "Retry-After"
)

// passThrough adds the task's own headers, leaving out the reserved and the
// malformed. Of names that differ only in case, the first in byte order counts.
func (r *request) passThrough(own map[string]string) {
	if len(own) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		value := own[name]
		if !validName(name) || reserved(name) || !validValue(value) {
			continue
		}
		if key := http.CanonicalHeaderKey(name); !r.has(key) {
			r.set(key, value)
		}
	}
}

func (r *request) has(name string) bool {
	return slices.ContainsFunc(r.fields, func(f field) bool { return f.name == name })
}

// reserved says whether a task may not set the header: what we say ourselves,
// what describes the body or frames the message, what belongs to one connection
// (RFC 9110, 7.6.1), and what would change the form of the response.
//
// It reads "_" as "-", since CGI and WSGI fold both into one variable:
// Sched_Lease would overwrite Sched-Lease there.
func reserved(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	switch name {
	case "accept-encoding", "connection", "expect", "host", "http2-settings", "keep-alive",
		"te", "trailer", "transfer-encoding", "upgrade", "user-agent":
		return true
	}
	for _, prefix := range [...]string{"sched-", "ce-", "webhook-", "content-", "proxy-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// validName says whether name is a token (RFC 9110, 5.6.2).
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		alphanumeric := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alphanumeric && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}

// validValue says whether value is a field value (RFC 9110, 5.5): no control
// characters but the tab. UTF-8 passes as it is.
func validValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7F {
			return false
		}
	}
	return true
}

func printableASCII(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// encodeValue percent-encodes text as CloudEvents does in header values: the
// space, the double quote, the percent sign and all but printable ASCII.
func encodeValue(text string) string {
	plain := 0
	for plain < len(text) && !encodes(text[plain]) {
		plain++
	}
	if plain == len(text) {
		return text
	}
	const hex = "0123456789ABCDEF"
	encoded := append(make([]byte, 0, len(text)+16), text[:plain]...)
	for i := plain; i < len(text); i++ {
		if c := text[i]; encodes(c) {
			encoded = append(encoded, '%', hex[c>>4], hex[c&15])
		} else {
			encoded = append(encoded, c)
		}
	}
	return string(encoded)
}

func encodes(c byte) bool {
	return c <= ' ' || c > '~' || c == '"' || c == '%'
}
