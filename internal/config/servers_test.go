package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/discover"
	"mcmw/internal/route"
)

func TestAServerIsReadInEveryForm(t *testing.T) {
	for text, want := range map[string]route.Server{
		"cache1":   {Name: "cache1", Addr: "cache1:11211", Weight: 1},
		"cache1:1": {Name: "cache1:1", Addr: "cache1:1", Weight: 1},
		"cache1*3": {Name: "cache1", Addr: "cache1:11211", Weight: 3},
		"cache-1.example.com:11211*3": {
			Name: "cache-1.example.com:11211", Addr: "cache-1.example.com:11211",
			Weight: 3,
		},
		"blue=10.0.0.1":           {Name: "blue", Addr: "10.0.0.1:11211", Weight: 1},
		"blue=10.0.0.1:5*7":       {Name: "blue", Addr: "10.0.0.1:5", Weight: 7},
		"::1":                     {Name: "::1", Addr: "[::1]:11211", Weight: 1},
		"[::1]":                   {Name: "[::1]", Addr: "[::1]:11211", Weight: 1},
		"[::1]:5*2":               {Name: "[::1]:5", Addr: "[::1]:5", Weight: 2},
		"six=fe80::1:2":           {Name: "six", Addr: "[fe80::1:2]:11211", Weight: 1},
		"unix:/run/mc.sock":       {Name: "unix:/run/mc.sock", Addr: "unix:/run/mc.sock", Weight: 1},
		"sock=unix:/run/a=b*2":    {Name: "sock", Addr: "unix:/run/a=b", Weight: 2},
		"cache1@eu-1a":            {Name: "cache1", Addr: "cache1:11211", Weight: 1, Zone: "eu-1a"},
		"a@b=10.0.0.1:5*7@eu_1.a": {Name: "a@b", Addr: "10.0.0.1:5", Weight: 7, Zone: "eu_1.a"},
		"unix:/run/mc@1.sock":     {Name: "unix:/run/mc@1.sock", Addr: "unix:/run/mc@1.sock", Weight: 1},
		"10.0.0.1:11211:1":        {Name: "10.0.0.1:11211", Addr: "10.0.0.1:11211", Weight: 1},
		"10.0.0.1:11211:3 blue":   {Name: "blue", Addr: "10.0.0.1:11211", Weight: 3},
		"/run/mc.sock:2":          {Name: "unix:/run/mc.sock", Addr: "unix:/run/mc.sock", Weight: 2},
		"/run/mc.sock:2  blue":    {Name: "blue", Addr: "unix:/run/mc.sock", Weight: 2},
	} {
		for _, s := range []sources{
			{args: []string{"--servers", text}},
			{args: []string{"-m", text}},
			{env: []string{"MCMW_SERVERS=" + text}},
			{yaml: "servers: " + yamlQuote(text)},
			{yaml: "servers:\n  - " + yamlQuote(text)},
		} {
			require.Equal(t, []route.Server{want}, s.load(t).Servers, text)
		}
	}
}

func TestANameToLookUpIsReadInEveryForm(t *testing.T) {
	for text, want := range map[string]discover.Spec{
		"dns+cache":     {Lookup: discover.Addresses, Server: route.Server{Addr: "cache:11211", Weight: 1}},
		"dns+cache:5*3": {Lookup: discover.Addresses, Server: route.Server{Addr: "cache:5", Weight: 3}},
		"dns4+cache.ns.svc.": {
			Lookup: discover.Addresses4,
			Server: route.Server{Addr: "cache.ns.svc.:11211", Weight: 1},
		},
		"dns6+cache:5": {Lookup: discover.Addresses6, Server: route.Server{Addr: "cache:5", Weight: 1}},
		"blue=dns+cache": {
			Lookup: discover.Addresses,
			Server: route.Server{Name: "blue", Addr: "cache:11211", Weight: 1},
		},
		"dns+cache:5:3 blue": {
			Lookup: discover.Addresses,
			Server: route.Server{Name: "blue", Addr: "cache:5", Weight: 3},
		},
		"srv+_a._tcp.cache":  {Lookup: discover.Service, Server: route.Server{Addr: "_a._tcp.cache", Weight: 1}},
		"srv+_a._tcp.c.d.*2": {Lookup: discover.Service, Server: route.Server{Addr: "_a._tcp.c.d.", Weight: 2}},
		"srv+_a._b.c*record": {
			Lookup: discover.Service,
			Server: route.Server{Addr: "_a._b.c", Weight: discover.RecordWeight},
		},
		"dns+cache@a": {
			Lookup: discover.Addresses,
			Server: route.Server{Addr: "cache:11211", Weight: 1, Zone: "a"},
		},
		"srv+_a._b.c*record@a": {
			Lookup: discover.Service,
			Server: route.Server{Addr: "_a._b.c", Weight: discover.RecordWeight, Zone: "a"},
		},
		"k8s+_a._tcp.b.c.svc": {Lookup: discover.Endpoints, Server: route.Server{Addr: "_a._tcp.b.c.svc", Weight: 1}},
		"cluster+a.cfg.b":     {Lookup: discover.Nodes, Server: route.Server{Addr: "a.cfg.b:11211", Weight: 1}},
		"blue=cluster+[::1]:5": {
			Lookup: discover.Nodes,
			Server: route.Server{Name: "blue", Addr: "[::1]:5", Weight: 1},
		},
		"blue=srv+_a._tcp.c*2": {
			Lookup: discover.Service,
			Server: route.Server{Name: "blue", Addr: "_a._tcp.c", Weight: 2},
		},
	} {
		for _, s := range []sources{
			{args: []string{"-m", text}},
			{env: []string{"MCMW_SERVERS=" + text}},
			{yaml: "servers:\n  - " + yamlQuote(text)},
		} {
			c := s.load(t)
			require.Equal(t, []discover.Spec{want}, c.Specs, text)
			require.Empty(t, c.Servers, text)
		}
	}
	mapping := sources{yaml: "servers: [{name: blue, address: srv+_a._tcp.c, weight: record, zone: a}]"}
	require.Equal(t, []discover.Spec{{
		Lookup: discover.Service,
		Server: route.Server{Name: "blue", Addr: "_a._tcp.c", Weight: discover.RecordWeight, Zone: "a"},
	}},
		mapping.load(t).Specs)
}

func TestAListOfServersMayBeGivenInParts(t *testing.T) {
	want := []string{"a:11211", "b:11211", "c:11211", "d:11211"}
	for _, s := range []sources{
		{args: strings.Fields("-m a b c d")},
		{args: strings.Fields("-m a,b c,d")},
		{args: strings.Fields("--servers a --servers b,c -m d")},
		{args: strings.Fields("-m a -t 3 b c d")},
		{args: []string{"-m", "a, b ,c,d"}},
		{env: []string{"MCMW_SERVERS=a,b,c,d"}},
		{yaml: "servers: a,b,c,d"},
		{yaml: "servers: [a, b, {address: c}, {address: \"d:11211\", name: x}]"},
	} {
		var addrs []string
		for _, server := range s.load(t).Servers {
			addrs = append(addrs, server.Addr)
		}
		require.Equal(t, want, addrs)
	}
}
