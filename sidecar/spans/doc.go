// Package spans makes the OpenTelemetry spans of an attempt, as the conventions for
// messaging have them:
//
//	process QUEUE   CONSUMER  from the claim's statement to the written outcome
//	├ claim QUEUE   CLIENT    the statement that claimed it
//	├ dispatch QUEUE CLIENT   from handing it to the app to the app's answer
//	│ └ …                     what the app makes of it, in its own process
//	└ settle QUEUE  CLIENT    from the answer to the written outcome
//
// The attempt is a child of the span that enqueued the task, where the task's headers
// have a traceparent, and linked to it; otherwise it is a trace of its own. Whether it
// is recorded is the sampler's to say. If so the app gets the context of the dispatch in
// the task's headers traceparent and tracestate, and the task and worker in baggage.
//
// A nil [Tracer] makes nothing and costs nothing, and so does a nil [Attempt], which is
// what an attempt that isn't recorded has.
package spans
