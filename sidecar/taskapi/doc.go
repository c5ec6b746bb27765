// Package taskapi is the sidecar's local HTTP API, through which an app settles
// a task that it accepted (202) and asks whether the task is still its own.
// docs/http.md is its contract with app developers.
//
//	POST /v1/tasks/{id}/complete   the body is the output
//	POST /v1/tasks/{id}/retry      {"error": "…", "delay_ms": 0}
//	POST /v1/tasks/{id}/snooze     {"delay_ms": 1000}
//	POST /v1/tasks/{id}/cancel     {"error": "…"}
//	GET  /v1/tasks/{id}            {"state": "running", "cancel_requested": false}
//
// Each names its attempt by the Sched-Lease header or ?lease=. The lease is the
// proof: a call with one that no longer owns the task changes nothing and gets
// 409. There is no other authentication, so the API belongs on a loopback
// address or a Unix socket. It refuses what a browser sends for a web page,
// and host names that don't mean this machine (DNS rebinding).
//
// A call that gets no answer, or 503, may be repeated: settling twice with one
// lease is harmless. Errors are RFC 9457 problem details.
package taskapi
