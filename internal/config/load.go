package config

import (
	"errors"
	"fmt"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// Sources is where a configuration comes from.
type Sources struct {
	Environ []string       // as of os.Environ
	Flags   *pflag.FlagSet // made with [AddFlags] and parsed; nil: none
}

// Loaded is a valid configuration and where its values come from.
type Loaded struct {
	Sidecar Sidecar
	File    string // the file that was read; empty: none

	sources map[string]string
}

// Source says where a key's value comes from; "default" for what nobody set.
func (l *Loaded) Source(key string) string {
	if s := l.sources[key]; s != "" {
		return s
	}

	return "default"
}

// Load reads all sources and checks the result. Its error is an [InvalidError].
func Load(from Sources) (*Loaded, error) {
	vars := environ(from.Environ)
	loaded := &Loaded{Sidecar: DefaultSidecar(), sources: map[string]string{}}

	layers := []*layer{fallbackLayer(vars)}
	if file, givenBy := configFile(vars, from.Flags); file != "" {
		loaded.File = file
		layers = append(layers, fileLayer(file, givenBy))
	}
	layers = append(layers, envLayer(vars), flagLayer(from.Flags))

	var problems []Problem
	k := koanf.New(keyDelimiter)
	for _, l := range layers {
		problems = append(problems, l.problems...)
		for key, source := range l.sources {
			loaded.sources[key] = source
		}
		if err := l.mergeInto(k); err != nil {
			return nil, fmt.Errorf("config: merge: %w", err)
		}
	}

	decode := koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{ErrorUnused: true, ZeroFields: true}}
	if err := k.UnmarshalWithConf("", &loaded.Sidecar, decode); err != nil {
		return nil, fmt.Errorf("config: decode: %w", err)
	}

	var wrong *InvalidError
	if errors.As(loaded.Sidecar.Validate(), &wrong) {
		for _, p := range wrong.Problems {
			p.Source = loaded.sources[p.Key]
			problems = append(problems, p)
		}
	}
	if err := invalid(problems); err != nil {
		return nil, err
	}

	return loaded, nil
}

// configFile returns the file to read and what named it.
func configFile(vars map[string]string, fs *pflag.FlagSet) (path, givenBy string) {
	if fs != nil {
		if flag := fs.Lookup(flagConfig); flag != nil && flag.Changed {
			return flag.Value.String(), "--" + flagConfig
		}
	}

	return vars[envConfig], envConfig
}
