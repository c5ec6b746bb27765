// Package hello holds the smallest apps that run a task, in Node and in Python, without any dependency: what the README
// begins with and what `sched dev` without a command prints to be pasted.
package hello

import _ "embed"

// Node is app.js.
//
//go:embed app.js
var Node string

// Python is app.py.
//
//go:embed app.py
var Python string
