//go:build !race

package mainjob_test

const raceEnabled = false
