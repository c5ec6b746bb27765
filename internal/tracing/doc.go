// Package tracing sends spans by OTLP, as OpenTelemetry's standard variables say.
//
// Where they ask for nothing there is no provider, and nothing of this runs. A
// collector that is away costs spans and a line in the log now and then: spans wait in
// a bounded queue, what has no room is dropped, and nobody waits for any of it but
// [Provider.Shutdown], for as long as its context allows.
package tracing
