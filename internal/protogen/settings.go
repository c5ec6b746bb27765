package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
)

// settings are what buf's files say.
type settings struct {
	source  string // directory of the proto files
	plugins []plugin
}

// plugin is a program that makes files of descriptors.
type plugin struct {
	Local string `yaml:"local"`
	Out   string `yaml:"out"`
	Opt   string `yaml:"opt"`
}

func readSettings(root string) (set settings, err error) {
	var workspace struct {
		Version string `yaml:"version"`
		Modules []struct {
			Path string `yaml:"path"`
		} `yaml:"modules"`
		Lint, Breaking any // for buf itself
	}
	if err := readYAML(filepath.Join(root, "buf.yaml"), &workspace); err != nil {
		return set, err
	}
	if len(workspace.Modules) != 1 {
		return set, fmt.Errorf("buf.yaml: %d modules, must be one", len(workspace.Modules))
	}
	var generate struct {
		Version string   `yaml:"version"`
		Plugins []plugin `yaml:"plugins"`
	}
	if err := readYAML(filepath.Join(root, "buf.gen.yaml"), &generate); err != nil {
		return set, err
	}
	for i, p := range generate.Plugins {
		if p.Local == "" || p.Out == "" {
			return set, fmt.Errorf("buf.gen.yaml: plugin %d needs local and out", i+1)
		}
	}
	if len(generate.Plugins) == 0 {
		return set, errors.New("buf.gen.yaml: no plugins")
	}
	return settings{workspace.Modules[0].Path, generate.Plugins}, nil
}

func readYAML(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}

// outs are the directories that plugins write to.
func (s settings) outs() []string {
	var outs []string
	for _, p := range s.plugins {
		if !slices.Contains(outs, p.Out) {
			outs = append(outs, p.Out)
		}
	}
	return outs
}
