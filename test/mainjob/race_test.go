//go:build race && verify

package mainjob_test

// raceEnabled makes the sidecars race-enabled, where there is time for it.
const raceEnabled = true
