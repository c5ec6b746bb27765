package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDSNForAnotherDatabase(t *testing.T) {
	t.Parallel()
	require.Equal(t, "postgres://u:p%40ss@h:5432/other?sslmode=disable", dsnFor("postgres://u:p%40ss@h:5432/postgres?sslmode=disable", "other"))
	require.Equal(t, "postgresql://h/other", dsnFor("postgresql://h", "other"))
	require.Equal(t, "host=h dbname=a dbname=other", dsnFor("host=h dbname=a", "other"))
}

func TestConfigRefusesWhatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	require.NoError(t, DefaultConfig().Validate())
	tests := []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Rounds = 0 }, "0 rounds"},
		{func(c *Config) { c.Drain.Protocols = []string{"smtp"} }, `--protocol "smtp"`},
		{func(c *Config) { c.Drain.Tasks = 0 }, "--tasks 0"},
		{func(c *Config) { c.Drain.Slots = 5001 }, "--slots 5001"},
		{func(c *Config) { c.Latency.Rate = 0 }, "--rate 0"},
		{func(c *Config) { c.Latency.Duration = 0 }, "--duration 0s"},
		{func(c *Config) { c.Idle.Duration = 0 }, "--duration 0s"},
		{func(c *Config) { c.Drain.Protocols = []string{"http", "http"} }, "given twice"},
		{func(c *Config) { c.Latency.Protocols = nil }, "none given"},
		{func(c *Config) { c.Latency.Protocols = []string{"exec"} }, `--protocol "exec"`},
		{func(c *Config) { c.Timers.Rate = 1 }, "--rate 1"},
		{func(c *Config) { c.Timers.Lead = 0 }, "lead of 0s"},
		{func(c *Config) { c.Backlog.Parts = []string{"river"} }, "--parts river"},
		{func(c *Config) { c.Backlog.Pinned = 0 }, "--pinned 0s"},
		{func(c *Config) { c.Governor.Steps = []int{1} }, "limits [1]"},
	}
	for _, tt := range tests {
		config := DefaultConfig()
		tt.change(&config)
		require.ErrorContains(t, config.Validate(), tt.want)
	}
}
