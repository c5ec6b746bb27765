//go:build !race || !verify

package mainjob_test

const raceEnabled = false
