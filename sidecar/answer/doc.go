// Package answer holds what an app's answer must pass before it goes to
// Postgres: the output of a task and the text of an error.
//
// An app may answer anything. Postgres' jsonb refuses some texts that JSON
// allows (the escape \u0000, half a surrogate pair, numbers beyond numeric,
// invalid UTF-8), and outcomes are settled in batches, so one such answer would
// fail the settle of its neighbours too. Every dispatcher therefore passes what
// an app sent through [Output] and [Text] first. What [Output] accepts, every
// supported Postgres stores.
package answer
