package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

const generatedSuffix = ".pb.go"

// errDiffers is returned by check.
var errDiffers = errors.New("not what the proto files and buf.gen.yaml make: run 'make proto'")

func main() {
	onlyCheck := flag.Bool("check", false, "write nothing, fail when something would change")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, ".", *onlyCheck)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1) //nolint:forbidigo // main exits
	}
}

// run generates in a repository.
func run(ctx context.Context, root string, onlyCheck bool) error {
	set, err := readSettings(root)
	if err != nil {
		return err
	}
	request, err := compile(ctx, filepath.Join(root, set.source))
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, p := range set.plugins {
		if err := p.generate(ctx, request, files); err != nil {
			return err
		}
	}
	stale, err := leftOver(root, set, files)
	if err != nil {
		return err
	}
	if onlyCheck {
		return check(root, files, stale)
	}
	return write(root, files, stale)
}

// leftOver lists generated files that nothing generates any more.
func leftOver(root string, set settings, files map[string][]byte) (stale []string, err error) {
	for _, out := range set.outs() {
		err := filepath.WalkDir(filepath.Join(root, out), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, generatedSuffix) {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err == nil && files[name] == nil {
				stale = append(stale, name)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return stale, nil
}

// check names what write would change.
func check(root string, files map[string][]byte, stale []string) error {
	differ := slices.Clone(stale)
	for name, want := range files {
		have, err := os.ReadFile(filepath.Join(root, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil || !bytes.Equal(have, want) {
			differ = append(differ, name)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return fmt.Errorf("%s: %w", strings.Join(differ, ", "), errDiffers)
}

func write(root string, files map[string][]byte, stale []string) error {
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	for _, name := range stale {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}
