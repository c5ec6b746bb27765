// Protogen writes the Go code of the files under proto, with the plugins that
// buf.gen.yaml names: what `buf generate` would write, byte for byte, without the
// minutes that it takes to build buf.
//
//	go run ./internal/protogen [-check]
//
// It reads buf.yaml for where the files are and buf.gen.yaml for the plugins, which
// must be on the PATH, and knows no more of both than this repository uses: any
// other key is an error. With -check it writes nothing and exits with 1 when a file
// differs, is missing, or is left over from a proto file that is gone.
package main
