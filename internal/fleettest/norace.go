//go:build !race

package fleettest

// raceEnabled: see the other file.
const raceEnabled = false
