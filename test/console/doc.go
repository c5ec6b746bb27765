// Package console holds the test of the console in a browser: a fleet of real
// sidecars at work, looked at with headless Chromium. It runs with the build tag
// verify, and makes the screenshots of the docs with -update.
package console
