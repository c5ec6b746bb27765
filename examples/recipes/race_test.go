//go:build race

package recipes_test

const raceEnabled = true
