// Package host knows what a sidecar's machine offers, as labels that selectors can
// ask for.
package host
