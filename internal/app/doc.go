// Package app puts the parts together: it makes what a command needs from its
// configuration, runs it, and stops it in order. Packages below it don't know
// each other beyond the interfaces they declare.
package app
