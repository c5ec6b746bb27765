package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

const pluginVariable = "PROTOGEN_TEST_PLUGIN"

// TestMain is a plugin, too.
func TestMain(m *testing.M) {
	if os.Getenv(pluginVariable) != "" {
		if err := echo(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// echo makes of each file one that says what the plugin was told.
func echo(in io.Reader, out io.Writer) error {
	input, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var request pluginpb.CodeGeneratorRequest
	if err := proto.Unmarshal(input, &request); err != nil {
		return err
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if request.GetParameter() == "fail" {
		response.Error = proto.String("told to fail")
	}
	var known []string
	comments := map[string]string{}
	for _, file := range request.GetProtoFile() {
		known = append(known, file.GetName())
		for _, at := range file.GetSourceCodeInfo().GetLocation() {
			comments[file.GetName()] += at.GetLeadingComments()
		}
	}
	for _, name := range request.GetFileToGenerate() {
		text := fmt.Sprintf("%s|%s|%s", request.GetParameter(), strings.Join(known, " "), strings.TrimSpace(comments[name]))
		response.File = append(response.File, &pluginpb.CodeGeneratorResponse_File{
			Name: proto.String(strings.TrimSuffix(name, ".proto") + generatedSuffix), Content: &text,
		})
	}
	output, err := proto.Marshal(response)
	if err == nil {
		_, err = out.Write(output)
	}
	return err
}

// repository has two proto files and the plugin.
func repository(t *testing.T, option string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	root := t.TempDir()
	plugin := filepath.Join(root, "plugin")
	require.NoError(t, os.WriteFile(plugin, []byte("#!/bin/sh\n"+pluginVariable+"=1 exec '"+self+"'\n"), 0o700))
	put(t, root, "buf.yaml", "version: v2\nmodules:\n  - path: proto\nlint:\n  use: [STANDARD]\n")
	put(t, root, "buf.gen.yaml", "version: v2\nplugins:\n  - local: "+plugin+"\n    out: gen\n    opt: "+option+"\n")
	put(t, root, "proto/a/a.proto", "syntax = \"proto3\";\npackage a;\nimport \"b/b.proto\";\nimport \"google/protobuf/duration.proto\";\n"+
		"// M is a message.\nmessage M { b.N n = 1; google.protobuf.Duration d = 2; }\n")
	put(t, root, "proto/b/b.proto", "syntax = \"proto3\";\npackage b;\nmessage N {}\n")
	return root
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	root := repository(t, "paths=source_relative")
	err := run(t.Context(), root, true)
	require.ErrorIs(t, err, errDiffers)
	require.EqualError(t, err, "gen/a/a.pb.go, gen/b/b.pb.go: not what the proto files and buf.gen.yaml make: run 'make proto'")
	require.NoDirExists(t, filepath.Join(root, "gen"), "a check writes nothing")

	require.NoError(t, run(t.Context(), root, false))
	text, err := os.ReadFile(filepath.Join(root, "gen/a/a.pb.go"))
	require.NoError(t, err)
	require.Equal(t, "paths=source_relative|b/b.proto google/protobuf/duration.proto a/a.proto|M is a message.", string(text))
	require.NoError(t, run(t.Context(), root, true))

	put(t, root, "gen/a/a.pb.go", "edited")
	put(t, root, "gen/gone.pb.go", "of a file that is gone")
	put(t, root, "gen/kept.go", "written by hand")
	require.EqualError(t, run(t.Context(), root, true), "gen/a/a.pb.go, gen/gone.pb.go: "+errDiffers.Error())
	require.NoError(t, run(t.Context(), root, false))
	require.NoError(t, run(t.Context(), root, true))
	require.NoFileExists(t, filepath.Join(root, "gen/gone.pb.go"))
	require.FileExists(t, filepath.Join(root, "gen/kept.go"))
}

func TestGenerateRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, file, text, want string }{
		{"a proto file with a mistake", "proto/b/b.proto", "syntax = \"proto3\";\nmessage {}\n", "b.proto:2:9"},
		{"a key of buf's that isn't known here", "buf.gen.yaml", "version: v2\nmanaged:\n  enabled: true\n", "buf.gen.yaml: "},
		{"no plugins", "buf.gen.yaml", "version: v2\n", "buf.gen.yaml: no plugins"},
		{"a plugin of buf's registry", "buf.gen.yaml", "version: v2\nplugins:\n  - out: gen\n", "buf.gen.yaml: plugin 1 needs local and out"},
		{"a plugin that isn't there", "buf.gen.yaml", "version: v2\nplugins:\n  - local: protoc-gen-none\n    out: gen\n", "protoc-gen-none"},
		{"two modules", "buf.yaml", "version: v2\nmodules:\n  - path: a\n  - path: b\n", "buf.yaml: 2 modules, must be one"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := repository(t, "x")
			put(t, root, tt.file, tt.text)
			require.ErrorContains(t, run(t.Context(), root, false), tt.want)
		})
	}
	require.ErrorContains(t, run(t.Context(), repository(t, "fail"), false), "told to fail")
}
