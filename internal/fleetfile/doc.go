// Package fleetfile keeps queues, kinds and settings of a fleet in a YAML file:
// it reads such a file, compares it with the database, makes the database follow
// it, and writes the database's state as such a file.
//
// An entry of the file is a whole row: a key that it leaves out is not set. A
// section that the file leaves out is not touched, and what a section has no
// entry for stays, unless the apply prunes. A row that an operator has pinned is
// never changed; it is reported instead. All changes are one transaction.
//
// One table per section ([Section.Fields]) gives each key its type and range.
// Reading, writing, the comparison and the JSON Schema for editors derive from
// it, and tests hold it to the columns and settings that the database has.
//
// What is wrong with a file is reported all at once, with lines, in an
// [InvalidError]; nothing is changed then.
package fleetfile

//go:generate go test . -run TestSchemaFile -update
