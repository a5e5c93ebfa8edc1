package experiment

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProcessorsAreNumbersAndRanges(t *testing.T) {
	for text, want := range map[string][]int{"all": nil, "0": {0}, "0,2-4": {0, 2, 3, 4}, "1023": {1023}} {
		got, ok := parseProcessors(text)
		require.True(t, ok, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "none", "-1", "3-1", "0,,1", "1024", "0-", "0-99999999999999999999", "1,all"} {
		_, ok := parseProcessors(text)
		assert.False(t, ok, text)
	}
	e := parse(t, "name: a\nfactors: {server_cpus: [all, \"0\", \"0,1\"]}\nconstants: {load_cpus: 1}")
	assert.Nil(t, e.Points[0].Values.Processors(ServerCPUs))
	assert.Equal(t, []int{0, 1}, e.Points[2].Values.Processors(ServerCPUs))
	assert.Equal(t, []int{1}, e.Points[2].Values.Processors(LoadCPUs))
}

func TestSettingsThatAServerDoesNotSupportAreRefused(t *testing.T) {
	for constants, want := range map[string]string{
		"{server: redis}": "server redis with middlewares 1: mcmw speaks only memcached's protocol; expected " +
			"middlewares: 0, or server: memcached",
		"{server: redis, middlewares: 0, group_size: 40}": "server redis with group_size 40: only memcached " +
			"has it; expected server: memcached, or no group_size",
		"{server: redis, middlewares: 0, server_threads: 129}": "server redis with server_threads 129: expected " +
			"at most 128",
		"{server_persistence: append}": "server_persistence append with server " +
			"memcached: only Redis writes to disk; expected server: redis, or server_persistence: none",
		"{server: valkey}":       `"valkey"; expected memcached or redis`,
		"{server_pinning: true}": `"true"; expected none or process or thread`,
		"{server_cpus: 1-0}":     `"1-0"; expected all, or numbers and ranges such as 0,2-3`,
		"{server: redis, middlewares: 0, server_persistence: all}": `"all"; expected none or snapshot or append or append-always`,
	} {
		_, err := Parse("exp.yaml", []byte("name: a\nconstants: "+constants), false)
		assert.ErrorContains(t, err, want, constants)
	}
	e := parse(t, "name: a\nconstants: {middlewares: 0}\nfactors: {server: [memcached, redis]}")
	assert.True(t, e.Uses(Server, Redis))
	assert.False(t, e.Uses(Server, "valkey"))
}
