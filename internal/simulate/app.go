package simulate

import (
	"fmt"
	"time"
)

// Kind is what limits an app.
type Kind string

// The kinds.
const (
	IO         Kind = "io"         // it waits for others, who bear any number of tasks
	CPU        Kind = "cpu"        // it computes, on so many cores
	Downstream Kind = "downstream" // it waits for another that works on so many tasks at once
)

// Kinds returns all of them.
func Kinds() []Kind { return []Kind{IO, CPU, Downstream} }

// App is a model of an app.
type App struct {
	Kind    Kind
	Service time.Duration // that a task takes alone
	Width   float64       // cores of CPU, tasks at once of Downstream
	// MemPerTask is what part of its memory each running task takes.
	MemPerTask float64
}

// Validate says what is wrong with it.
func (a App) Validate() error {
	switch {
	case a.Kind != IO && a.Kind != CPU && a.Kind != Downstream:
		return fmt.Errorf("app %q: there are %v", a.Kind, Kinds())
	case a.Service < time.Millisecond || a.Service > time.Hour:
		return fmt.Errorf("service %s: must be 1ms to 1h", a.Service)
	case a.Kind != IO && !(a.Width >= 1):
		return fmt.Errorf("width %v: must be 1 or more", a.Width)
	}
	return nil
}

// rate is how many of n running tasks end in a second; speed is 1 for a machine
// like the others.
func (a App) rate(n, speed float64) float64 {
	if a.Kind != IO {
		n = min(n, a.Width)
	}
	return n * speed / a.Service.Seconds()
}

// cpu is what part of it n running tasks use. Waiting takes a little, too.
func (a App) cpu(n float64) float64 {
	if a.Kind == CPU {
		return min(n/a.Width, 1)
	}
	const waiting = 0.002
	return min(n*waiting, 1)
}

func (a App) mem(n float64) float64 {
	const idle = 0.1
	return min(idle+n*a.MemPerTask, 1)
}
