//go:build race

package postgres_test

// raceEnabled makes the sidecars race-enabled whenever the tests are.
const raceEnabled = true
