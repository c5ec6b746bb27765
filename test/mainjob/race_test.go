//go:build race

package mainjob_test

// raceEnabled makes the sidecars race-enabled whenever the tests are.
const raceEnabled = true
