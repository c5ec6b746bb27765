package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

// compile reads all proto files of a directory into what plugins are asked with:
// these files to generate, in order, and before each what it imports. It names no
// version of a compiler, so that none gets into the files.
func compile(ctx context.Context, source string) (*pluginpb.CodeGeneratorRequest, error) {
	names, err := protoFiles(source)
	if err != nil {
		return nil, err
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{source}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments
	}
	compiled, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names}
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
	}
	for _, file := range compiled {
		add(file)
	}
	return request, nil
}

// protoFiles lists them as imports name them.
func protoFiles(source string) (names []string, err error) {
	err = filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".proto" {
			return err
		}
		name, err := filepath.Rel(source, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("no proto files in %s", source)
	}
	slices.Sort(names)
	return names, err
}

// generate asks the plugin and adds what it makes to files, by path in the
// repository.
func (p plugin) generate(ctx context.Context, request *pluginpb.CodeGeneratorRequest, files map[string][]byte) error {
	request.Parameter = proto.String(p.Opt)
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	var output, said bytes.Buffer
	cmd := exec.CommandContext(ctx, p.Local)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &output, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", p.Local, err, strings.TrimSpace(said.String()))
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output.Bytes(), &response); err != nil {
		return fmt.Errorf("%s: %w", p.Local, err)
	}
	if response.GetError() != "" {
		return fmt.Errorf("%s: %s", p.Local, response.GetError())
	}
	for _, file := range response.GetFile() {
		files[filepath.Join(p.Out, filepath.FromSlash(file.GetName()))] = []byte(file.GetContent())
	}
	return nil
}
