package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/experiment"
	"mcmw/lab/load"
	"mcmw/lab/record"
	"mcmw/lab/testbed"
)

// fakeBed is a testbed whose runs take no time.
type fakeBed struct {
	deployed, running, populated int
	measured                     []string // the measurements, as "workers=1 seed=2"
	// fail returns the error of the n-th measurement, from 1; nil: all succeed.
	fail func(n int) error
	// rate is the throughput of a point; nil: 100.
	rate func(v experiment.Values, n int) float64
	// output is the output of the load; "": a result of that rate.
	output string
	// describe changes the description of the testbed.
	describe func(*testbed.Description)
}

func (b *fakeBed) Describe(context.Context) (testbed.Description, error) {
	d := testbed.Description{Versions: map[string]string{"mcmw": "v1"}, Host: record.Host{Hostname: "fake"}}
	if b.describe != nil {
		b.describe(&d)
	}
	return d, nil
}

func (b *fakeBed) MeasurePath(context.Context, time.Duration) ([]record.Value, error) {
	return []record.Value{{Source: record.SourcePath, Metric: "bandwidth", Value: 1e9}}, nil
}

func (b *fakeBed) Deploy(context.Context, experiment.Values) (testbed.Deployment, error) {
	b.deployed++
	b.running++
	return &fakeDeployment{b}, nil
}

func (b *fakeBed) Close() error { return nil }

type fakeDeployment struct{ bed *fakeBed }

func (d *fakeDeployment) Populate(context.Context, experiment.Values) error {
	d.bed.populated++
	return nil
}

func (d *fakeDeployment) Measure(ctx context.Context, m testbed.Measurement) (*testbed.Outputs, error) {
	b := d.bed
	b.measured = append(b.measured, fmt.Sprintf("workers=%s seed=%d", m.Values[experiment.Workers], m.Seed))
	n := len(b.measured)
	outputs := &testbed.Outputs{Loads: [][]byte{[]byte("half a res")}, Hosts: map[string][]byte{"fake": nil}}
	if b.fail != nil {
		if err := b.fail(n); err != nil {
			return outputs, err
		}
	}
	if ctx.Err() != nil {
		return outputs, context.Cause(ctx)
	}
	if b.output != "" {
		outputs.Loads = [][]byte{[]byte(b.output)}
		return outputs, nil
	}
	rate := 100.0
	if b.rate != nil {
		rate = b.rate(m.Values, n)
	}
	text, err := json.Marshal(load.Result{
		Started: time.Unix(int64(1000*n), 0), Elapsed: time.Second, Connections: 1,
		Total: load.CommandResult{
			Requests: uint64(rate), OpsPerSec: rate,
			Latency: load.Latency{Mean: time.Millisecond},
		},
	})
	outputs.Loads = [][]byte{text}
	return outputs, err
}

func (d *fakeDeployment) Stop() { d.bed.running-- }

// read parses an experiment.
func read(t *testing.T, text string) *experiment.Experiment {
	t.Helper()
	e, err := experiment.Parse("exp.yaml", []byte(text), false)
	require.NoError(t, err)
	return e
}

const sixRuns = "name: six\nfactors: {workers: [1, 2, 3]}\nrepetitions: 2\nrun: {duration: 1s}\n"

// runsIn returns the runs of the record in a directory.
func runsIn(t *testing.T, dir string) []record.Run {
	t.Helper()
	r, err := record.Open(dir)
	require.NoError(t, err)
	defer r.Close()
	runs, err := r.Runs(context.Background())
	require.NoError(t, err)
	return runs
}

// completeSet returns the positions of the complete runs of the record, by point and repetition.
func completeSet(t *testing.T, dir string) map[[2]int]int {
	t.Helper()
	set := map[[2]int]int{}
	for _, run := range runsIn(t, dir) {
		if run.State == record.Complete {
			set[[2]int{run.Point, run.Repetition}] = run.Position
		}
	}
	return set
}

func TestEveryRunIsMadeAndRecorded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "record")
	bed := &fakeBed{}
	var lines []Progress
	summary, err := Run(context.Background(), Options{
		Experiment: read(t, sixRuns), Testbed: bed, Dir: dir, Command: []string{"mcmwlab", "run"},
		Check: func(run record.Run, set record.Manifest) []record.Warning {
			assert.NotEmpty(t, set.Path)
			return []record.Warning{{Code: "looked", Message: run.Factors["workers"]}}
		},
		CheckSet: func(runs []record.Run) []record.Warning {
			return []record.Warning{{Code: "all", Message: fmt.Sprint(len(runs))}}
		},
		Progress: func(p Progress) { lines = append(lines, p) },
	})
	require.NoError(t, err)
	assert.Equal(t, Summary{Complete: 6}, summary)
	assert.Equal(t, []int{6, 6, 0}, []int{bed.deployed, bed.populated, bed.running})
	runs := runsIn(t, dir)
	require.Len(t, runs, 6)
	for i, run := range runs {
		assert.Equal(t, []int{i / 2, i % 2}, []int{run.Point, run.Repetition})
		assert.Equal(t, fmt.Sprint(i/2+1), run.Factors["workers"])
		assert.Equal(t, "8", run.Factors["clients"])
		assert.Equal(t, []record.Warning{{Code: "looked", Message: run.Factors["workers"]}}, run.Warnings)
		x, ok := run.Value(record.SourceClient, "throughput")
		assert.True(t, ok)
		assert.InDelta(t, 100, x, 0)
		assert.FileExists(t, filepath.Join(dir, "raw", fmt.Sprint(run.ID), "client-0.json"))
	}
	r, err := record.Open(dir)
	require.NoError(t, err)
	defer r.Close()
	m := r.Manifest()
	assert.Equal(t, []string{"six", sixRuns, "v1", "fake", "local"},
		[]string{m.Name, m.Experiment, m.Versions["mcmw"], m.Host.Hostname, m.Testbed})
	assert.NotEmpty(t, m.Path)
	warnings, err := r.Warnings(context.Background())
	require.NoError(t, err)
	assert.Equal(t, []record.Warning{{Code: "all", Message: "6"}}, warnings)

	require.Len(t, lines, 7)
	assert.Nil(t, lines[0].Last)
	assert.Equal(t, 0, lines[0].Next.Position)
	assert.Equal(t, 3, lines[3].Done)
	assert.Positive(t, lines[3].Left)
	assert.Nil(t, lines[6].Next)
	assert.Zero(t, lines[6].Left)
}

func TestRepetitionsHaveDifferentSeedsAndPointsTheSame(t *testing.T) {
	bed := &fakeBed{}
	_, err := Run(context.Background(),
		Options{Experiment: read(t, sixRuns+"seed: 1\norder: listed\n"), Testbed: bed, Dir: t.TempDir()})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"workers=1 seed=4294967296", "workers=1 seed=4294967552", "workers=2 seed=4294967296",
		"workers=2 seed=4294967552", "workers=3 seed=4294967296", "workers=3 seed=4294967552",
	}, bed.measured)
}

func TestWithoutRestartADeploymentIsUsedForAllPointsThatItFits(t *testing.T) {
	bed := &fakeBed{}
	text := "name: kept\nfactors: {workers: [1, 2], clients: [1, 2]}\nrepetitions: 1\norder: listed\nrun: {duration: " +
		"1s, restart: false}\n"
	_, err := Run(context.Background(), Options{Experiment: read(t, text), Testbed: bed, Dir: t.TempDir()})
	require.NoError(t, err)
	assert.Equal(t, []int{2, 2, 0}, []int{bed.deployed, bed.populated, bed.running})
}

// interrupt runs an experiment whose context ends during the n-th measurement.
func interrupt(t *testing.T, o Options, bed *fakeBed, n int) Summary {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	bed.fail = func(i int) error {
		if i == n {
			cancel()
		}
		return nil
	}
	o.Testbed = bed
	summary, err := Run(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, bed.running, "all programs have ended")
	return summary
}

func TestAnInterruptedExperimentResumesToTheSameRuns(t *testing.T) {
	whole := t.TempDir()
	_, err := Run(context.Background(), Options{Experiment: read(t, sixRuns), Testbed: &fakeBed{}, Dir: whole})
	require.NoError(t, err)
	want := completeSet(t, whole)
	require.Len(t, want, 6)
	for n := 1; n <= 6; n++ {
		dir := t.TempDir()
		summary := interrupt(t, Options{Experiment: read(t, sixRuns), Dir: dir}, &fakeBed{}, n)
		assert.Equal(t, n-1, summary.Complete)
		assert.Len(t, runsIn(t, dir), n-1, "an interrupted run isn't a failed one")

		summary, err = Run(context.Background(),
			Options{Experiment: read(t, sixRuns), Testbed: &fakeBed{}, Dir: dir, Resume: true})
		require.NoError(t, err)
		assert.Equal(t, Summary{Complete: 6, Skipped: n - 1}, summary)
		assert.Equal(t, want, completeSet(t, dir))
	}
}

func TestAStopRuleDecidesTheSameAfterAResume(t *testing.T) {
	text := "name: stop\nfactors: {workers: [1, 2]}\nseed: 3\nstop: {within: 0.05, at_least: 2, at_most: 6}\nrun: " +
		"{duration: 1s}\n"
	varying := func(v experiment.Values, n int) float64 {
		if v[experiment.Workers] == "2" {
			return 100 + float64(n%7)*40
		}
		return 100
	}
	whole := t.TempDir()
	_, err := Run(context.Background(),
		Options{Experiment: read(t, text), Testbed: &fakeBed{rate: varying}, Dir: whole})
	require.NoError(t, err)
	want := completeSet(t, whole)
	require.Len(t, want, 8, "two of the steady point, six of the other")

	dir := t.TempDir()
	interrupt(t, Options{Experiment: read(t, text), Dir: dir}, &fakeBed{rate: varying}, 6)
	_, err = Run(context.Background(),
		Options{Experiment: read(t, text), Testbed: &fakeBed{rate: varying}, Dir: dir, Resume: true})
	require.NoError(t, err)
	assert.Equal(t, want, completeSet(t, dir))
}

func TestAFailedRunIsRecordedWithTheReasonAndRepeated(t *testing.T) {
	dir := t.TempDir()
	bed := &fakeBed{fail: func(n int) error {
		if n == 2 {
			return errors.New("server:s1 ended on its own: signal: killed")
		}
		return nil
	}}
	summary, err := Run(context.Background(), Options{Experiment: read(t, sixRuns), Testbed: bed, Dir: dir})
	require.EqualError(t, err, "1 of 6 runs failed; repeat them with --resume")
	assert.Equal(t, Summary{Complete: 5, Failed: 1}, summary)
	assert.Zero(t, bed.running)
	var failed []record.Run
	for _, run := range runsIn(t, dir) {
		if run.State == record.Failed {
			failed = append(failed, run)
		}
	}
	require.Len(t, failed, 1)
	assert.Equal(t, "server:s1 ended on its own: signal: killed", failed[0].Error)
	raw, err := os.ReadFile(filepath.Join(dir, "raw", fmt.Sprint(failed[0].ID), "client-0.json"))
	require.NoError(t, err)
	assert.Equal(t, "half a res", string(raw), "the outputs of a failed run are kept")

	summary, err = Run(context.Background(),
		Options{Experiment: read(t, sixRuns), Testbed: &fakeBed{}, Dir: dir, Resume: true})
	require.NoError(t, err)
	assert.Equal(t, Summary{Complete: 6, Skipped: 5}, summary)
	assert.Len(t, runsIn(t, dir), 7, "the failed one stays")
}

func TestAnExperimentEndsAfterFailuresInARow(t *testing.T) {
	bed := &fakeBed{fail: func(int) error { return errors.New("no such option") }}
	summary, err := Run(context.Background(), Options{Experiment: read(t, sixRuns), Testbed: bed, Dir: t.TempDir()})
	require.EqualError(t, err, "3 runs in a row have failed; the last error: no such option")
	assert.Equal(t, Summary{Failed: 3}, summary)
	assert.Zero(t, bed.running)
}

func TestUnreadableOutputsFailTheRun(t *testing.T) {
	bed := &fakeBed{output: "nonsense"}
	dir := t.TempDir()
	_, err := Run(context.Background(),
		Options{Experiment: read(t, "name: a\nrepetitions: 1\n"), Testbed: bed, Dir: dir})
	require.Error(t, err)
	runs := runsIn(t, dir)
	require.Len(t, runs, 1)
	assert.Contains(t, runs[0].Error, "result of client:0: ")
}

func TestNothingIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	o := Options{Experiment: read(t, sixRuns), Testbed: &fakeBed{}, Dir: dir, Checksums: map[string]string{"mcmw": "a"}}
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	_, err = Run(context.Background(), o)
	require.ErrorIs(t, err, record.ErrExists)
	require.ErrorContains(t, err, "continue it with --resume")

	o.Resume = true
	other := o
	other.Experiment = read(t, sixRuns+"# changed\n")
	_, err = Run(context.Background(), other)
	require.ErrorContains(t, err,
		"it is a record of another experiment (six), or the experiment's file has changed since")
	other = o
	other.Quick = true
	_, err = Run(context.Background(), other)
	require.ErrorContains(t, err, "it was begun with another setting of --quick")
	other = o
	other.Dir = t.TempDir()
	_, err = Run(context.Background(), other)
	require.ErrorIs(t, err, record.ErrNoRecord)
	other = o
	other.Experiment, err = experiment.Parse("exp.yaml", []byte(sixRuns), false, "seed=2")
	require.NoError(t, err)
	_, err = Run(context.Background(), other)
	require.ErrorContains(t, err, "it was begun with other settings (--set missing)")
	for want, change := range map[string]func(*testbed.Description){
		"mcmw: v1, now v2":   func(d *testbed.Description) { d.Versions = map[string]string{"mcmw": "v2"} },
		"host: fake, now b":  func(d *testbed.Description) { d.Host.Hostname = "b" },
		"kernel: none, now":  func(d *testbed.Description) { d.Host.Kernel = "Linux 7" },
		"inventory: none":    func(d *testbed.Description) { d.Inventory = []string{"a (a) at 10.0.0.1: load"} },
		"dilation: 0, now 2": func(d *testbed.Description) { d.Dilation = 2 },
	} {
		other = o
		other.Testbed = &fakeBed{describe: change}
		_, err = Run(context.Background(), other)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "its runs were made elsewhere or with other programs")
	}
	other = o
	other.Checksums = map[string]string{"mcmw": "b"}
	_, err = Run(context.Background(), other)
	require.ErrorContains(t, err, "mcmw: another file, with the same version")

	bed := &fakeBed{}
	o.Testbed = bed
	summary, err := Run(context.Background(), o)
	require.NoError(t, err)
	assert.Equal(t, Summary{Complete: 6, Skipped: 6}, summary)
	assert.Empty(t, bed.measured)
}

func TestTwoExperimentsCannotWriteToOneRecord(t *testing.T) {
	dir := t.TempDir()
	o := Options{Experiment: read(t, sixRuns), Dir: dir}
	var second error
	o.Testbed = &fakeBed{fail: func(n int) error {
		if n == 1 {
			_, second = Run(context.Background(),
				Options{Experiment: o.Experiment, Testbed: &fakeBed{}, Dir: dir, Resume: true})
		}
		return nil
	}}
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.ErrorContains(t, second, "another mcmwlab is writing to this record")
}

func TestARecordThatCannotBeWrittenEndsTheExperimentAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "record")
	bed := &fakeBed{}
	bed.fail = func(n int) error {
		if n == 2 { // a file in place of the directory for raw outputs acts as a full disk
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "raw")))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "raw"), nil, 0o644))
		}
		return nil
	}
	summary, err := Run(context.Background(), Options{Experiment: read(t, sixRuns), Testbed: bed, Dir: dir})
	require.ErrorContains(t, err, filepath.Join(dir, "raw"))
	assert.Equal(t, Summary{Complete: 1}, summary)
	assert.Len(t, bed.measured, 2)
	assert.Zero(t, bed.running)
	assert.Len(t, completeSet(t, dir), 1, "existing runs are kept")

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err = Run(context.Background(),
		Options{Experiment: read(t, sixRuns), Testbed: &fakeBed{}, Dir: filepath.Join(file, "record")})
	require.ErrorContains(t, err, file)
}

func TestLeftoversOfAKilledRunAreReplaced(t *testing.T) {
	dir := t.TempDir()
	text := "name: a\nrepetitions: 2\nrun: {duration: 1s}\n"
	interrupt(t, Options{Experiment: read(t, text), Dir: dir}, &fakeBed{}, 2)
	left := filepath.Join(dir, "raw", "2", "middleware-9.jsonl")
	require.NoError(t, os.MkdirAll(filepath.Dir(left), 0o755))
	require.NoError(t, os.WriteFile(left, nil, 0o644))
	_, err := Run(context.Background(), Options{Experiment: read(t, text), Testbed: &fakeBed{}, Dir: dir, Resume: true})
	require.NoError(t, err)
	assert.NoFileExists(t, left)
	assert.FileExists(t, filepath.Join(dir, "raw", "2", "client-0.json"))
}

func TestARunWithForeignLoadIsMadeAgainAtMostTwice(t *testing.T) {
	const text = "name: noisy\nfactors: {workers: [1, 2]}\nrepetitions: 1\norder: listed\nrun: {duration: 1s, " +
		"foreign_load: 0.15}\n"
	dir, made := filepath.Join(t.TempDir(), "record"), map[string]int{}
	summary, err := Run(context.Background(), Options{
		Experiment: read(t, text), Testbed: &fakeBed{}, Dir: dir,
		Foreign: func(run record.Run, _ record.Manifest) (float64, bool) {
			workers := run.Factors["workers"]
			if made[workers]++; workers == "1" && made[workers] > 1 {
				return 0.15, true
			}
			return 0.2, true
		},
	})
	require.NoError(t, err)
	assert.Equal(t, Summary{Complete: 2}, summary, "a run that is made again has not failed")
	states := map[string][]record.State{}
	for _, run := range runsIn(t, dir) {
		states[run.Factors["workers"]] = append(states[run.Factors["workers"]], run.State)
		assert.Equal(t, run.State == record.Failed, run.Error != "")
	}
	assert.Equal(t, map[string][]record.State{
		"1": {record.Failed, record.Complete}, "2": {record.Failed, record.Failed, record.Complete},
	}, states)
}

func TestRunsWhoseForeignLoadIsNotKnownAreCounted(t *testing.T) {
	const text = "name: noisy\nfactors: {workers: [1, 2]}\nrepetitions: 1\nrun: {duration: 1s, foreign_load: 0.05}\n"
	summary, err := Run(t.Context(), Options{
		Experiment: read(t, text), Testbed: &fakeBed{}, Dir: filepath.Join(t.TempDir(), "record"),
		Foreign: func(run record.Run, _ record.Manifest) (float64, bool) { return 0, run.Factors["workers"] == "1" },
	})
	require.NoError(t, err)
	assert.Equal(t, Summary{Complete: 2, Unjudged: 1}, summary)
}

func TestARunThatFailedIsNotMadeAgainBesideThoseWithForeignLoad(t *testing.T) {
	const text = "name: noisy\nfactors: {workers: [1, 2]}\nrepetitions: 1\norder: listed\nrun: {duration: 1s, " +
		"foreign_load: 0.15}\n"
	bed := &fakeBed{fail: func(n int) error {
		if n == 1 {
			return errors.New("broken")
		}
		return nil
	}}
	foreign := 0.2
	summary, err := Run(context.Background(), Options{
		Experiment: read(t, text), Testbed: bed, Dir: filepath.Join(t.TempDir(), "record"),
		Foreign: func(record.Run, record.Manifest) (float64, bool) {
			defer func() { foreign = 0 }()
			return foreign, true
		},
	})
	require.ErrorContains(t, err, "1 of 2 runs failed")
	assert.Equal(t, Summary{Complete: 1, Failed: 1}, summary)
	assert.Len(t, bed.measured, 3)
}

func TestARecordThatIsKeptAsTextIsNotContinued(t *testing.T) {
	dir, kept := filepath.Join(t.TempDir(), "record"), filepath.Join(t.TempDir(), "kept")
	o := Options{Experiment: read(t, sixRuns), Testbed: &fakeBed{}, Dir: dir}
	interrupt(t, o, &fakeBed{}, 3)
	r, err := record.Open(dir)
	require.NoError(t, err)
	_, err = r.Export(t.Context(), kept, record.Text)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	o.Dir, o.Resume = kept, true
	_, err = Run(t.Context(), o)
	require.ErrorContains(t, err, kept+": it is kept as text, to which nothing can be added")
	assert.NoDirExists(t, filepath.Join(kept, "raw"))
}
