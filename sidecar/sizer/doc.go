// Package sizer moves the slots of a sidecar: each second it gathers what the
// governor counted, what the app uses and what waits, asks package elastic, and
// applies the answer (or, observing, only tells it). One per process.
//
// What waits is read from rows that the leader keeps; arrivals are what was claimed
// plus what this worker's share of it grew by: nothing is counted here. Without a
// leader, or without Postgres, that grows old and nothing is moved.
package sizer
