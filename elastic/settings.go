package elastic

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Preset is a name for a smoothing.
type Preset string

// The presets.
const (
	PresetDefault Preset = "default" // α 0.7
	PresetSteady  Preset = "steady"  // α 0.2
	PresetWarm    Preset = "warm"    // α 0.6
	PresetFast    Preset = "fast"    // α 0.9
)

// Presets returns all of them.
func Presets() []Preset { return []Preset{PresetDefault, PresetSteady, PresetWarm, PresetFast} }

// Alpha returns the preset's α, and whether there is such a preset.
func (p Preset) Alpha() (float64, bool) {
	switch p {
	case PresetDefault:
		return 0.7, true
	case PresetSteady:
		return 0.2, true
	case PresetWarm:
		return 0.6, true
	case PresetFast:
		return 0.9, true
	default:
		return 0, false
	}
}

// Settings are what operators move while the fleet runs. They hold for all of it.
type Settings struct {
	Profile   Profile
	Weights   *Weights // nil: those of the profile
	Preset    Preset
	Alpha     float64       // 0 < α ≤ 1; 0: that of the preset
	Threshold float64       // of the joint score; 0.01 to 1
	Min       int           // least slots, 1 or more
	Cooldown  time.Duration // how long fewer slots must have been enough before any are given up; 1 s to 1 h
	Drain     time.Duration // in what time a backlog should be gone; 1 s to 1 h
}

// The keys of the settings in the fleet's configuration.
const (
	KeyProfile   = "elastic_profile"
	KeyWeights   = "elastic_weights" // cpu/memory/pending as text, or WeightsOfProfile
	KeyPreset    = "elastic_preset"
	KeyAlpha     = "elastic_alpha"
	KeyThreshold = "elastic_threshold"
	KeyMin       = "elastic_min"
	KeyCooldown  = "elastic_cooldown_seconds"
	KeyDrain     = "elastic_drain_seconds"
)

// WeightsOfProfile is the value of KeyWeights that names no weights.
const WeightsOfProfile = "profile"

// Bounds of the settings.
const (
	thresholdMin = 0.01
	MinMax       = 5000
	DurationMin  = time.Second
	DurationMax  = time.Hour
)

// DefaultSettings returns what holds when nobody said otherwise.
func DefaultSettings() Settings {
	return Settings{
		Profile: ProfileDefault, Preset: PresetDefault, Threshold: 0.75, Min: 2,
		Cooldown: 10 * time.Second, Drain: 5 * time.Second,
	}
}

// Validate says all that is wrong with the settings.
func (s Settings) Validate() error {
	var errs []error
	if _, ok := s.Profile.Weights(); !ok {
		errs = append(errs, fmt.Errorf("profile %q: there are %v", s.Profile, Profiles()))
	}
	if s.Weights != nil {
		errs = append(errs, s.Weights.Validate())
	}
	if _, ok := s.Preset.Alpha(); !ok {
		errs = append(errs, fmt.Errorf("preset %q: there are %v", s.Preset, Presets()))
	}
	if !(s.Alpha >= 0 && s.Alpha <= 1) {
		errs = append(errs, fmt.Errorf("alpha %v: must be 0 to 1", s.Alpha))
	}
	if !(s.Threshold >= thresholdMin && s.Threshold <= 1) {
		errs = append(errs, fmt.Errorf("threshold %v: must be 0.01 to 1", s.Threshold))
	}
	if s.Min < 1 || s.Min > MinMax {
		errs = append(errs, fmt.Errorf("min %d: must be 1 to %d", s.Min, MinMax))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"cooldown", s.Cooldown}, {"drain", s.Drain}} {
		if d.value < DurationMin || d.value > DurationMax {
			errs = append(errs, fmt.Errorf("%s %s: must be %s to %s", d.name, d.value, DurationMin, DurationMax))
		}
	}
	return errors.Join(errs...)
}

// EffectiveWeights returns the weights in force.
func (s Settings) EffectiveWeights() Weights {
	if s.Weights != nil {
		return *s.Weights
	}
	w, _ := s.Profile.Weights()
	return w
}

// EffectiveAlpha returns the α in force.
func (s Settings) EffectiveAlpha() float64 {
	if s.Alpha > 0 {
		return s.Alpha
	}
	alpha, _ := s.Preset.Alpha()
	return alpha
}

// ParseSettings reads the rows of the fleet's configuration, JSON by key. What is
// absent has its default; other keys are somebody else's. When a value doesn't
// fit, the error says which, and the settings are the defaults.
func ParseSettings(rows map[string]string) (Settings, error) {
	s := DefaultSettings()
	var weights string
	var cooldown, drain float64
	var errs []error
	read := func(key string, into any) {
		raw, there := rows[key]
		if !there {
			return
		}
		if err := json.Unmarshal([]byte(raw), into); err != nil {
			errs = append(errs, fmt.Errorf("setting %s: %w", key, err))
		}
	}
	read(KeyProfile, &s.Profile)
	read(KeyWeights, &weights)
	read(KeyPreset, &s.Preset)
	read(KeyAlpha, &s.Alpha)
	read(KeyThreshold, &s.Threshold)
	read(KeyMin, &s.Min)
	read(KeyCooldown, &cooldown)
	read(KeyDrain, &drain)
	if cooldown != 0 {
		s.Cooldown = time.Duration(cooldown * float64(time.Second))
	}
	if drain != 0 {
		s.Drain = time.Duration(drain * float64(time.Second))
	}
	if weights != "" && weights != WeightsOfProfile {
		w, err := ParseWeights(weights)
		s.Weights = &w
		errs = append(errs, err)
	}
	if err := errors.Join(append(errs, s.Validate())...); err != nil {
		return DefaultSettings(), err
	}
	return s, nil
}

// ParseWeights reads cpu/memory/pending, such as 0.4/0.3/0.3.
func ParseWeights(text string) (Weights, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return Weights{}, fmt.Errorf("weights %q: must be three numbers, such as 0.4/0.3/0.3", text)
	}
	var numbers [3]float64
	for i, part := range parts {
		var err error
		if numbers[i], err = strconv.ParseFloat(part, 64); err != nil {
			return Weights{}, fmt.Errorf("weights %q: must be three numbers, such as 0.4/0.3/0.3", text)
		}
	}
	w := Weights{CPU: numbers[0], Mem: numbers[1], Pending: numbers[2]}
	return w, w.Validate()
}
