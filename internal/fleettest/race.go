//go:build race

package fleettest

// raceEnabled makes the programs race-enabled whenever the tests are.
const raceEnabled = true
