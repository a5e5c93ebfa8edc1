package experiment

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/table"
)

// parse reads a valid file.
func parse(t *testing.T, text string) *Experiment {
	t.Helper()
	e, err := Parse("exp.yaml", []byte(text), false)
	require.NoError(t, err)
	return e
}

func TestAFileDescribesAWholeExperiment(t *testing.T) {
	text := `
name: all-of-it
title: Every key
testbed: {kind: local, cpus: {server: [0], middleware: [1], load: [0, 1]}}
constants: {servers: 2, replicas: 1, ratio: 1:0, middleware_flags: --procs=1 --queue=9}
factors:
  workers: [8, 16]
  sharded: [false, true]
order: listed
seed: 7
run: {populate: false, restart: false, warm_up: 500ms, duration: 3, cool_down: 1m}
stop: {when: [half_width(middleware.response_time_mean) <= 10%, variation(middleware.response_time_mean) < 0.02], confidence: 0.9, at_least: 2, at_most: 5}
`
	e := parse(t, text)
	assert.Equal(t, "all-of-it", e.Name)
	assert.Equal(t, "Every key", e.Title)
	assert.Equal(t, map[string][]int{"server": {0}, "middleware": {1}, "load": {0, 1}}, e.CPUs)
	assert.Equal(t, Listed, e.Order)
	assert.EqualValues(t, 7, e.Seed)
	assert.Equal(t, Phases{WarmUp: 500 * time.Millisecond, Duration: 3 * time.Second, CoolDown: time.Minute}, e.Phases)
	assert.Equal(t,
		"2 to 5, until half_width(middleware.response_time_mean) <= 10% or variation(middleware.response_time_mean) "+
			"< 0.02 (confidence 90 %)", e.Stop.String())
	assert.Equal(t, text, string(e.Text))
	require.Len(t, e.Points, 4)
	var points []string
	for i, p := range e.Points {
		assert.Equal(t, i, p.Number)
		points = append(points, p.String())
		assert.Len(t, p.Values, len(Settings), "every setting has a value")
		assert.Equal(t, 2, p.Values.Int(Servers))
		assert.Equal(t, "1:0", p.Values[Ratio])
		assert.Equal(t, []string{"--procs=1", "--queue=9"}, p.Values.Flags(MiddlewareFlags))
	}
	assert.Equal(t, []string{
		"workers=8 sharded=false", "workers=8 sharded=true", "workers=16 sharded=false",
		"workers=16 sharded=true",
	}, points)
}

func TestAFileWithOnlyANameIsOnePointWithThreeRepetitions(t *testing.T) {
	e := parse(t, "name: one\n")
	require.Len(t, e.Points, 1)
	assert.Equal(t, "the only point", e.Points[0].String())
	least, most := e.Runs()
	assert.Equal(t, []int{3, 3}, []int{least, most})
	for _, s := range Settings {
		assert.Equal(t, s.Default, e.Points[0].Values[s.Name])
		assert.True(t, s.check(s.Default), s.Name)
	}
}

func TestListedPointsAreThoseOfTheFile(t *testing.T) {
	e := parse(t,
		"name: listed\nconstants: {depth: 4}\npoints:\n- {workers: 8, clients: 4}\n- {workers: 16, clients: 4}\n")
	require.Len(t, e.Points, 2)
	assert.Equal(t, "workers=16", e.Points[1].String(), "constants are not in the name")
	assert.Equal(t, 4, e.Points[1].Values.Int(Depth))
}

func TestEveryProblemIsReportedWithItsLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"many at once": {
			"name: Big Name\nfactor:\n  clients: [1]\nconstants:\n  worker: 4\n  depth: 0\n  depth: 2\n  sharded: " +
				"perhaps\nrun:\n  duration: soon\n  warm_up: -1s\nrepetitions: few\norder: interlaced\n",
			`exp.yaml:1: name: "Big Name"; expected lower-case letters, digits, . _ -, at most 64
exp.yaml:2: unknown key "factor"; did you mean factors?
exp.yaml:5: constants: unknown key "worker"; did you mean workers?
exp.yaml:6: constants.depth: "0"; expected a whole number from 1 to 65536, or default: the program's default
exp.yaml:7: constants.depth: the key occurs twice
exp.yaml:8: constants.sharded: "perhaps"; expected true or false
exp.yaml:10: run.duration: "soon"; expected a duration such as 10s, at least 500ms
exp.yaml:11: run.warm_up: "-1s"; expected a duration such as 10s
exp.yaml:12: repetitions: "few"; expected a whole number from 1 to 10000
exp.yaml:13: order: "interlaced"; expected one of interleaved, paired, random, listed; did you mean interleaved?`,
		},
		"nothing": {
			"# nothing\n",
			"exp.yaml: the file is empty; expected an experiment, such as those in experiments/",
		},
		"not YAML":        {"name: [\n", "exp.yaml:1: not YAML: did not find expected node content"},
		"a list":          {"- name\n", `exp.yaml:1: not a mapping; accepted: lines of the form "name: value"`},
		"no name":         {"seed: 1\n", "exp.yaml: no name; expected a line such as name: quick"},
		"no value":        {"name:\n", "exp.yaml:1: name: the value is missing\nexp.yaml: no name"},
		"another testbed": {"name: a\ntestbed: moon\n", `exp.yaml:2: testbed: "moon"; expected one of local, vm`},
		"a size": {
			"name: a\ntestbed: {kind: vm, hosts: {server: {preset: azure-a5}}}\n",
			`exp.yaml:2: testbed.hosts.server.preset: "azure-a5"; expected one of azure-a1, azure-a2, azure-a4; did you mean azure-a`,
		},
		"a bandwidth": {
			"name: a\ntestbed: {kind: vm, hosts: {server: {upload: 100}}}\n",
			`exp.yaml:2: testbed.hosts.server.upload: "100"; expected a bandwidth such as 100Mbit`,
		},
		"memory": {
			"name: a\ntestbed: {kind: vm, hosts: {load: {memory: 1MiB}}}\n",
			`exp.yaml:2: testbed.hosts.load.memory: "1MiB"; expected memory such as`,
		},
		"cpus": {
			"name: a\ntestbed: {kind: vm, hosts: {load: {cpus: 0}}}\n",
			`exp.yaml:2: testbed.hosts.load.cpus: "0"; expected a number more than 0.01`,
		},
		"machines": {
			"name: a\ntestbed: {kind: vm, hosts: {load: {count: 201}}}\n",
			`exp.yaml:2: testbed.hosts.load.count: "201"; expected a whole number from 1 to 200`,
		},
		"a role": {
			"name: a\ntestbed: {kind: vm, hosts: {servers: {count: 2}}}\n",
			`exp.yaml:2: testbed.hosts: unknown key "servers"; did you mean server?`,
		},
		"a dilation": {
			"name: a\ntestbed: {kind: vm, dilation: 0.5}\n",
			`exp.yaml:2: testbed.dilation: "0.5"; expected a number from 1 to 100`,
		},
		"a dilated rate": {
			"name: a\ntestbed: {kind: vm, dilation: 2}\nconstants: {rate: 100}\n",
			"testbed.dilation: given together with rate",
		},
		"a delay": {
			"name: a\ntestbed: {kind: vm, delay: 1h}\n",
			`exp.yaml:2: testbed.delay: "1h"; expected a duration such as 0.5ms, at most 10s`,
		},
		"hosts of others": {
			"name: a\ntestbed: {hosts: {load: {count: 2}}}\n",
			"exp.yaml:2: testbed.hosts: only testbeds of the kind vm have it, this one is of the kind local",
		},
		"a host": {
			"name: a\ntestbed: {kind: vm, hosts: {load: azure-a1}}\n",
			"exp.yaml:2: testbed.hosts.load: not a mapping; expected some of the keys count, cpus",
		},
		"a level twice": {
			"name: a\nfactors:\n  workers: [8, 8]\n",
			`exp.yaml:3: factors.workers: the level "8" occurs twice`,
		},
		"no level": {
			"name: a\nfactors:\n  workers: []\n",
			"exp.yaml:3: factors.workers: expected a list, such as [a, b], of levels: a whole number",
		},
		"a level alone": {"name: a\nfactors:\n  workers: 8\n", "exp.yaml:3: factors.workers: expected a list"},
		"a list as constant": {
			"name: a\nconstants:\n  workers: [8]\n",
			"exp.yaml:3: constants.workers: expected one value: a whole number from 1 to 65536",
		},
		"both": {
			"name: a\nconstants: {depth: 1}\nfactors: {depth: [1, 2]}\n",
			"exp.yaml:2: constants.depth: depth is a factor, too; expected only one of them",
		},
		"points, factors": {
			"name: a\npoints: [{depth: 1}]\nfactors: {depth: [1, 2]}\n",
			"exp.yaml:3: factors: given together with points",
		},
		"a point twice": {
			"name: a\npoints:\n- {depth: 1}\n- {workers: 64}\n",
			"exp.yaml:4: points: the point occurs twice",
		},
		"odd clients": {
			"name: a\nconstants: {load_threads: 3}\nfactors: {clients: [9, 10]}\n",
			"exp.yaml:3: factors: clients=10: clients 10: expected a multiple of the 3 threads",
		},
		"replicas": {
			"name: a\npoints:\n- {replicas: 2}\n",
			"exp.yaml:3: points: replicas 2 is more than the number of servers (1)",
		},
		"many keys": {
			"name: a\npoints:\n- {keys: 1, keys_per_get: 2}\n",
			"exp.yaml:3: points: keys_per_get 2 is more than the number of keys (1)",
		},
		"three levels": {
			"name: a\nfactors: {depth: [1, 2], workers: [1, 2, 3]}\nfraction: {depth: [workers]}\n",
			"exp.yaml:3: fraction: workers has 3 levels; expected two levels of every factor",
		},
		"own product": {
			"name: a\nfactors: {depth: [1, 2], workers: [1, 2]}\nfraction: {depth: [depth, workers]}\n",
			"expected a product of other factors, each once",
		},
		"an equation": {
			"name: a\nfactors: {depth: [1, 2], workers: [1, 2]}\nfraction: [depth = workers]\n",
			"exp.yaml:3: fraction: expected each product with its factors: {c: [a, b]} instead of [c = a*b]",
		},
		"not a factor": {
			"name: a\nfactors: {depth: [1, 2], workers: [1, 2]}\nfraction: {servers: [depth]}\n",
			"exp.yaml:3: fraction: servers is not a factor",
		},
		"not a setting": {
			"name: a\nfactors: {depth: [1, 2], workers: [1, 2]}\nfraction: {worker: [depth]}\n",
			"unknown key \"worker\"; did you mean workers?",
		},
		"a chain": {"name: a\nfactors: {depth: [1, 2], workers: [1, 2], servers: [1, 2]}\nfraction: {depth: " +
			"[workers], workers: [servers]}\n", "which itself is one"},
		"a fraction alone": {"name: a\nfraction: {depth: [workers]}\n", "exp.yaml:2: fraction: given without factors"},
		"repeat and stop": {
			"name: a\nrepetitions: 3\nstop: {within: 0.1}\n",
			"exp.yaml:2: repetitions: given together with stop",
		},
		"stop at random": {
			"name: a\norder: random\nstop: {within: 0.1}\n",
			"exp.yaml:3: stop: the order random schedules all runs",
		},
		"stop when": {
			"name: a\nstop: {at_most: 5}\n",
			"exp.yaml:2: stop: no condition; expected one such as when: half_width(client.throughput) <= 5%",
		},
		"stop metric": {
			"name: a\nstop: {metric: client.happiness, within: 0.1}\n",
			`exp.yaml:2: stop: "half_width(client.happiness) <= 0.1", character 12: expected a metric such as throughput or p99, not "client.happiness"`,
		},
		"stop too early": {
			"name: a\nstop: {within: 0.1, at_least: 5, at_most: 4}\n",
			"exp.yaml:2: stop: at_most 4 is less than at_least 5",
		},
		"stop beyond": {
			"name: a\nstop: {within: 5}\n",
			`exp.yaml:2: stop: "half_width(client.throughput) <= 5": expected an upper bound of more than 0 and less than 1`,
		},
		"mapping as stop": {
			"name: a\nstop: soon\n",
			`exp.yaml:2: stop: "soon", character 1: expected half_width(...) or variation(...), not "soon"`,
		},
		"processor": {
			"name: a\ntestbed: {cpus: {load: [first]}}\n",
			`exp.yaml:2: testbed.cpus.load: "first"; expected a whole number from 0 to 1023`,
		},
		"too many points": {"name: a\nfactors: {" + hundred("depth") + ", " + hundred("workers") + ", " +
			hundred("pipeline") + "}\n", "exp.yaml:2: factors: more than 100000 points"},
		"flags": {
			"name: a\nconstants: {server_flags: o modern}\n",
			"exp.yaml:2: constants.server_flags: \"o modern\"; expected flags separated by spaces",
		},
		"no such system": {
			"name: a\nfactors: {system: [mcmw, before]}\n",
			`exp.yaml:2: system: system "before"; expected direct, one of mcmw, proxy, twemproxy, or one that is described under systems`,
		},
		"a system afar": {
			"name: a\ntestbed: {kind: ssh}\nfactors: {system: [mcmw, twemproxy]}\n",
			"system twemproxy on the testbed ssh: only the testbeds local and vm",
		},
		"nothing described": {
			"name: a\nsystems: {direct: {flags: -v}}\n",
			"exp.yaml:2: systems.direct: direct stands for no system",
		},
		"no such case": {
			"name: a\ncases: {few: {clients: 1}}\nfactors: {case: [few, many]}\n",
			`exp.yaml:3: factors: case "many"; expected one of those under cases: few`,
		},
		"a factor's case": {
			"name: a\ncases: {few: {clients: 1}}\nfactors: {case: [few], clients: [1, 2]}\n",
			"exp.yaml:3: factors: case few has clients, which the factors or the point itself set, too",
		},
		"paired":            {"name: a\norder: paired\n", "order: paired needs a full design"},
		"two at once, same": {"name: a\nname: b\n", "exp.yaml:2: name: the key occurs twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("exp.yaml", []byte(c.text), false)
			require.ErrorContains(t, err, strings.Split(c.want, "\n")[0])
			if name == "many at once" {
				require.EqualError(t, err, c.want)
			}
		})
	}
}

// hundred returns a factor of a hundred levels.
func hundred(name string) string {
	var levels []string
	for i := range 100 {
		levels = append(levels, strconv.Itoa(i+1))
	}
	return name + ": [" + strings.Join(levels, ",") + "]"
}

func TestTheQuickProfileReplacesItsSettings(t *testing.T) {
	text := []byte(`name: a
factors: {clients: [1, 2, 3], workers: [1, 2]}
constants: {depth: 4, keys: 5}
stop: {within: 0.1}
run: {duration: 60s, warm_up: 9s}
quick:
  factors: {clients: [1]}
  constants: {depth: 2}
  repetitions: 1
  run: {duration: 1s}
`)
	e, err := Parse("exp.yaml", text, true)
	require.NoError(t, err)
	require.Len(t, e.Points, 2)
	assert.Nil(t, e.Stop)
	assert.Equal(t, 1, e.Repetitions)
	assert.Equal(t, time.Second, e.Phases.Duration)
	assert.Equal(t, 9*time.Second, e.Phases.WarmUp)
	assert.Equal(t, 2, e.Points[0].Values.Int(Depth))
	assert.Equal(t, 5, e.Points[0].Values.Int(Keys))
	assert.True(t, HasQuick(text))

	whole, err := Parse("exp.yaml", text, false)
	require.NoError(t, err)
	assert.Len(t, whole.Points, 6)

	for text, want := range map[string]string{
		"name: a\n":                            "exp.yaml:1: there is no quick profile",
		"name: a\nquick: fast\n":               "exp.yaml:2: quick: not a mapping",
		"name: a\nquick: {name: b}\n":          "exp.yaml:2: quick.name: a quick profile can't change it",
		"name: a\nquick: {run: {duration: x}}": `exp.yaml:2: run.duration: "x"`,
	} {
		_, err := Parse("exp.yaml", []byte(text), true)
		assert.ErrorContains(t, err, want, text)
	}
	assert.False(t, HasQuick([]byte("name: a\n")))
	points, err := Parse("exp.yaml", []byte("name: a\nfactors: {depth: [1, 2]}\nquick: {points: [{depth: 1}]}\n"), true)
	require.NoError(t, err)
	assert.Len(t, points.Points, 1)
}

func TestThePlanDescribesTheRuns(t *testing.T) {
	e := parse(t, `
name: plan
title: What is planned
testbed: {cpus: {load: [0, 1]}}
factors: {clients: [2, 8], workers: [1]}
constants: {value_size: 100}
stop: {within: 0.05, variation: 0.01, at_most: 4}
run: {warm_up: 1s, duration: 2s, cool_down: 500ms}
`)
	var out bytes.Buffer
	require.NoError(t, e.Plan().Write(&out, table.Text))
	assert.Equal(t, `experiment   plan: What is planned
testbed      local; load on processors 0,1
factors      clients: 2, 8
             workers: 1
constants    value_size 100
points       2
repetitions  3 to 4, until half_width(client.throughput) <= 0.05 or variation(client.throughput) < 0.01 (confidence 95 %)
order        interleaved, seed 0
each run     start, populate, warm up 1s, measure 2s, cool down 500ms
runs         6 to 8, about 30s to 40s

`, out.String())
}

func TestThePlanSaysWhetherRunsWithForeignLoadAreMadeAgain(t *testing.T) {
	for testbed, want := range map[string]string{
		"local": "measure 10s, made again with more than 15 % of foreign load\n",
		"{kind: ssh, inventory: hosts.yaml}": "made again with more than 15 % of foreign load, if one host runs " +
			"everything\n",
		"kubernetes": "measure 10s\n",
	} {
		var out bytes.Buffer
		e := parse(t, "name: plan\ntestbed: "+testbed+"\nrun: {foreign_load: 0.15}\n")
		require.NoError(t, e.Plan().Write(&out, table.Text))
		assert.Contains(t, out.String(), want, testbed)
	}
}

func TestTheExperimentsOfTheProjectAreValid(t *testing.T) {
	files, err := filepath.Glob("../experiments/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		e, err := Parse(file, text, false)
		require.NoError(t, err)
		assert.Equal(t, e.Name+".yaml", filepath.Base(file))
		if HasQuick(text) {
			_, err = Parse(file, text, true)
			require.NoError(t, err)
		}
	}
}

func TestTheExperimentsOfTheThesisOnServersAreValid(t *testing.T) {
	files, err := filepath.Glob("../experiments/pavlik/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 9)
	quick := time.Duration(0)
	for _, file := range files {
		text, err := Read(file, os.ReadFile)
		require.NoError(t, err)
		e, err := Parse(file, text, false)
		require.NoError(t, err)
		assert.Equal(t, "pavlik-"+strings.TrimSuffix(filepath.Base(file), ".yaml"), e.Name)
		require.NotNil(t, e.Quality, "its figures have the limit of 1 ms")
		e, err = Parse(file, text, true)
		require.NoError(t, err)
		_, runs := e.Runs()
		quick += time.Duration(runs) * (e.Phases.WarmUp + e.Phases.Duration)
	}
	assert.Less(t, quick, 7*time.Minute, "less than 8 minutes with the overhead of 0.2 s of each run")
}

func FuzzAnyFileIsReadOrRefusedWithLines(f *testing.F) {
	f.Add([]byte("name: a\nfactors: {clients: [1, 2], workers: [1, 2]}\nfraction: {workers: [clients]}\nquick: "+
		"{repetitions: 1}\n"), true)
	f.Add([]byte("name: a\npoints: [{depth: 1}, {depth: 2}]\nstop: {within: 0.1, at_most: 4}\norder: listed\n"), false)
	f.Add([]byte("name: a\ntestbed: {kind: vm, delay: 0.5ms, hosts: {server: {preset: azure-a1, upload: 1Gbit, "+
		"memory: 2GiB, count: 3}}}\n"), false)
	f.Add([]byte("seed: 1\nconstants: &c {keys: 5}\n---\nname: a\ninclude: b\nconstants: {<<: {servers: 2}}\n"), false)
	f.Add([]byte("name: &n a\ntitle: *n\nrun: {<<: {duration: 1s}}\n"), false)
	f.Fuzz(func(t *testing.T, text []byte, quick bool) {
		e, err := Parse("f", text, quick)
		if err != nil {
			require.IsType(t, &Problems{}, err)
			require.NotEmpty(t, err.Error())
			return
		}
		require.NotEmpty(t, e.Points)
		least, most := e.Runs()
		require.LessOrEqual(t, least, most)
		require.Positive(t, least)
		require.NotEmpty(t, e.Plan().Rows)
	})
}

func TestInvalidLevelsAreNotReportedAsDuplicates(t *testing.T) {
	_, err := Parse("exp.yaml", []byte("name: a\nfactors:\n  workers: [many, more]\n"), false)
	require.ErrorContains(t, err, `"many"`)
	require.ErrorContains(t, err, `"more"`)
	require.NotContains(t, err.Error(), "occurs twice")
}

func TestACaseIsAGroupOfSettingsAndASystemCanHaveAnotherBinary(t *testing.T) {
	const text = `name: a
systems: {before: {binary: /tmp/before, flags: --procs=1 --depth=2}, proxy: {binary: /opt/memcached}}
cases: {few: {clients: 1, value_size: 9}, many keys: {keys_per_get: 10, clients: 4}}
factors: {case: [few, many keys], system: [direct, proxy, before]}
constants: {value_size: 100, workers: default}
`
	e, err := Parse("exp.yaml", []byte(text), false)
	require.NoError(t, err)
	require.Equal(t, SystemKind{Kind: Mcmw, Binary: "/tmp/before", Flags: []string{"--procs=1", "--depth=2"}},
		e.Systems["before"])
	require.Equal(t, SystemKind{Kind: Proxy, Binary: "/opt/memcached"}, e.Systems["proxy"])
	require.Equal(t, SystemKind{Kind: Twemproxy, Binary: "nutcracker"}, e.Systems["twemproxy"])
	require.Len(t, e.Points, 6)
	require.Equal(t, "case=few system=direct", e.Points[0].String())
	require.Equal(t, "0", e.Points[0].Values[Middlewares], "direct has no middleware")
	require.Equal(t, "1", e.Points[1].Values[Middlewares])
	require.Equal(t, "9", e.Points[0].Values[ValueSize], "a case has precedence over the constants")
	require.Equal(t, []string{"100", "10", "4", "default"}, []string{
		e.Points[5].Values[ValueSize], e.Points[5].Values[KeysPerGet], e.Points[5].Values[Clients],
		e.Points[5].Values[Workers],
	})
	_, err = Parse("exp.yaml", []byte(text), false, "testbed=ssh")
	require.Error(t, err, "the testbed ssh doesn't support other systems")
}

func TestSettingsAreChangedInAFileAndInItsQuickProfile(t *testing.T) {
	const text = "name: a\nfactors: {workers: [1, 2], servers: [1, 2]}\nrun: {duration: 5s, warm_up: 1s}\nstop: " +
		"{metric: client.throughput, within: 0.05}\n" +
		"quick: {repetitions: 1, run: {duration: 1s}}\n"
	for _, quick := range []bool{false, true} {
		e, err := Parse("a.yaml", []byte(text), quick, "factors.workers=[4, 8]", "run.duration=2s", "repetitions=7")
		require.NoError(t, err)
		assert.Equal(t, 7, e.Repetitions)
		assert.Nil(t, e.Stop)
		assert.Equal(t, 2*time.Second, e.Phases.Duration)
		assert.Equal(t, time.Second, e.Phases.WarmUp)
		assert.Equal(t, "4", e.Points[0].Values["workers"])
		assert.Equal(t, "1", e.Points[0].Values["servers"])
	}
	for _, wrong := range []string{"repetitions", "=5", "run..duration=1s", "run=[", "run="} {
		_, err := Parse("a.yaml", []byte(text), false, wrong)
		require.ErrorContains(t, err, "expected KEY=VALUE", wrong)
	}
}
