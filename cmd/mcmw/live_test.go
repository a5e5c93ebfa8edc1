package main

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"mcmw/internal/config"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
)

// otherValues has, for every option that may change while mcmw runs, a value that is not its default. The test applies
// it in front of three servers, with two replicas.
var otherValues = map[string]string{
	"servers":          "", // the test drops one
	"replicas":         "1",
	"read":             "least-busy",
	"ack":              "any",
	"writers":          "one",
	"change-step":      "3s",
	"get-error":        "miss",
	"failure-limit":    "7",
	"rejoin":           "flush",
	"missed-memory":    "1m",
	"sweep-every":      "1h",
	"sweep-rate":       "1000",
	"refill-rate":      "1000",
	"sharded":          "true",
	"large-values":     "8k",
	"item-size":        "2m",
	"ring":             "libmemcached",
	"hash":             "md5",
	"hash-tag":         "{}",
	"holds":            "true",
	"resolve-interval": "1h",
	"remove-after":     "1",
	"resolver":         "127.0.0.1:1",
	"workers":          "3",
	"depth":            "3",
	"queue":            "3",
	"pool":             "per-server",
	"timeout":          "3s",
	"stall-after":      "3ms",
	"connect-timeout":  "3s",
	"drain-timeout":    "3s",
	"log-level":        "debug",
	"watch-interval":   "1h",
}

func TestTheMiddlewareAppliesEveryOptionThatMayChange(t *testing.T) {
	var addrs []string
	for _, s := range mctest.StartMemcacheds(t, 3) {
		addrs = append(addrs, s.Addr())
	}
	load := func(servers []string, more ...string) *config.Config {
		fs := pflag.NewFlagSet("mcmw", pflag.ContinueOnError)
		flags := config.AddFlags(fs)
		require.NoError(t,
			fs.Parse(append([]string{"--listen", "127.0.0.1:0", "--replicas", "2", "--ring", "twemproxy"}, more...)))
		for _, s := range servers {
			require.NoError(t, fs.Set("servers", s))
		}
		c, err := config.Load(config.Sources{Flags: flags})
		require.NoError(t, err)
		return c
	}
	start := load(addrs)
	m := mwtest.Start(t, start.With(start.Servers))
	client := mctest.MustDial(t, m.Addrs()[0].String())
	for _, o := range config.Options {
		if !o.Live() || o.InFileOnly() {
			continue
		}
		value, ok := otherValues[o.Name]
		require.True(t, ok, "no value is tested for %s", o.Name)
		c := start
		if o.Name == "servers" {
			c = load(addrs[:2])
		} else {
			c = load(addrs, "--"+o.Name+"="+value)
		}
		require.NotEmpty(t, c.Changes(start), o.Name)
		require.NoError(t, c.CheckReload(start), o.Name)
		require.NoError(t, m.Apply(t.Context(), c.With(c.Servers)), o.Name)
		require.Equal(t, "STORED\r\n", client.MustDo(t, "set k 0 0 1\r\nv\r\n"), o.Name)
		require.NoError(t, m.Apply(t.Context(), start.With(start.Servers)), o.Name)
	}
}
