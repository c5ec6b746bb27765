// Package elastic decides how many tasks a sidecar may run at once: values in, a
// number and its reason out. It reads no clock, file, database or network, so
// that a simulator on a virtual clock runs exactly what a sidecar runs.
//
// A [Controller] is given a [Sample] each second and returns a [Decision]:
//
//   - [Forecast] tells the arrivals of the next second from those of the last
//     minute. With what a task takes they become demand, in slots (Little's law:
//     what is in a system is its arrivals a second times what each stays), and
//     what waits becomes more of it.
//   - [Score] joins cpu, memory and what waits into one number. Above a threshold
//     it adds slots that demand alone would not, or says that the fleet needs
//     more workers.
//   - Push-back from the app (429, 503, timeouts) takes slots away by the share
//     of attempts that it turned down.
//   - Slots that end no more tasks a second only make each of them slower. What
//     more or fewer of them are worth is tried while work waits, judged by what
//     ends a second, and undone when it was for nothing (see [knee]).
//
// Invariants, each with a property test: the result is within the minimum and the
// ceiling once it got there; one step at most doubles; a sample that is too old,
// or an app that is down, changes nothing; more arrivals never mean fewer slots.
package elastic
