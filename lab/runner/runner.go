// Package runner makes the runs of an experiment on a testbed and keeps their measurements in a record.
//
//	schedule -> deploy (or keep the deployment) -> populate -> measure under load -> collect -> check -> record
//
// The record is the only state: an experiment that was interrupted at any moment continues from its complete runs. A
// failed run is recorded with the reason, and the next one is made. The experiment ends after several failures in a
// row, or when the record cannot be written.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mcmw/lab/experiment"
	"mcmw/lab/record"
	"mcmw/lab/testbed"
)

// failuresInARow is how many runs in a row may fail before the experiment ends, because the next would probably fail,
// too.
const failuresInARow = 3

// pathBulk is how long the bandwidth of each direction of the path is measured, but at most a fifth of a run's measured
// time.
const pathBulk = 500 * time.Millisecond

// Options say what to run and where to keep the measurements.
type Options struct {
	Experiment *experiment.Experiment
	Testbed    testbed.Testbed
	// Dir is the record's directory. Without Resume it must be empty or not exist. With Resume it must be a record of
	// the same experiment, made with the same programs on the same hosts.
	Dir    string
	Resume bool
	// Command is the command line, for the record. Quick says whether it asks for the quick profile.
	Command []string
	Quick   bool
	// Checksums are those of the programs that are files of this machine, by their names.
	Checksums map[string]string
	// Check, if set, returns warnings about a run of a set.
	Check func(run record.Run, set record.Manifest) []record.Warning
	// Foreign, if set, returns the part of the processor time in use during a run that was not the experiment's, or 0
	// if it was too little to matter; false if it is not known.
	Foreign func(run record.Run, set record.Manifest) (share float64, known bool)
	// CheckSet, if set, returns warnings about all runs together.
	CheckSet func([]record.Run) []record.Warning
	// Progress, if set, is called before every run and after the last.
	Progress func(Progress)
}

// Progress is the progress of an experiment.
type Progress struct {
	Done, Failed int // complete runs, and runs that have failed this time
	Skipped      int // complete runs that existed before
	Least, Most  int // smallest and largest number of runs in total
	Left         time.Duration
	Last         *record.Run // the run that has just ended; nil at first
	LastPoint    *experiment.Point
	Next         *experiment.Slot // nil at the end
}

// Summary is the result of an experiment.
type Summary struct {
	Complete, Failed, Skipped int
	// Unjudged is the number of runs whose foreign load the experiment limits, but which is not known.
	Unjudged int
}

// key identifies a run of an experiment.
type key struct{ point, repetition int }

// runner is an experiment in progress.
type runner struct {
	Options
	record     *record.Record
	complete   map[key]record.Run // without windows, histograms and samples
	failed     map[key]bool       // this time
	deployment testbed.Deployment // nil if none runs
	deployed   experiment.Values  // settings of the deployment
	populated  experiment.Values  // settings with which the keys were stored; nil: they were not
	progress   Progress
	began      time.Time
	made       int // runs made this time
	unjudged   int // of them, those whose foreign load is limited, but not known
}

// Run makes the runs that the record lacks. If the experiment ends early, the summary is that of the runs so far and
// the error says why; if ctx has ended, the error is its cause. All programs that Run started have ended when it
// returns.
func Run(ctx context.Context, o Options) (s Summary, err error) {
	r := &runner{Options: o, complete: map[key]record.Run{}, failed: map[key]bool{}}
	unlock, err := r.open(ctx)
	if err != nil {
		return s, err
	}
	defer unlock()
	defer func() { err = errors.Join(err, r.record.Close()) }()
	defer r.undeploy()
	err = r.runs(ctx)
	checkErr := r.checkSet(context.WithoutCancel(ctx))
	s = Summary{
		Complete: r.progress.Done, Failed: r.progress.Failed, Skipped: r.progress.Skipped, Unjudged: r.unjudged,
	}
	err = cmp.Or(err, checkErr)
	if err == nil && s.Failed > 0 {
		err = fmt.Errorf("%d of %d runs failed; repeat them with --resume", s.Failed, s.Failed+s.Complete)
	}
	return s, err
}

// open creates or opens the record and locks it.
func (r *runner) open(ctx context.Context) (unlock func(), err error) {
	if !r.Resume {
		if err := r.create(ctx); err != nil {
			return nil, err
		}
	} else if r.record, err = record.Open(r.Dir); err != nil {
		return nil, err
	}
	if unlock, err = r.lock(); err == nil {
		if err = r.readRecord(ctx); err == nil {
			return unlock, nil
		}
		unlock()
	}
	return nil, errors.Join(err, r.record.Close())
}

func (r *runner) create(ctx context.Context) (err error) {
	if entries, err := os.ReadDir(r.Dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s: %w: continue it with --resume, or choose another directory with --out", r.Dir,
			record.ErrExists)
	}
	m, err := r.manifest(ctx)
	if err != nil {
		return err
	}
	if m.Path, err = r.Testbed.MeasurePath(ctx, min(pathBulk, r.Experiment.Phases.Duration/5)); err != nil {
		return err
	}
	r.record, err = record.Create(r.Dir, m)
	return err
}

// manifest returns the manifest of a record that begins now, without the path.
func (r *runner) manifest(ctx context.Context) (record.Manifest, error) {
	e := r.Experiment
	d, err := r.Testbed.Describe(ctx)
	return record.Manifest{
		Name: e.Name, Title: e.Title, Created: time.Now().UTC(), Command: r.Command, Experiment: string(e.Text),
		Set:     e.Set,
		Testbed: e.Testbed, Seed: e.Seed, Versions: d.Versions, Checksums: r.Checksums, Host: d.Host,
		Inventory: d.Inventory,
		Machines:  d.Machines, Shortfalls: d.Shortfalls, Dilation: d.Dilation,
	}, err
}

// lockTime is how long to wait for the lock: a program that a killed lab was just starting holds the lock until it is
// executed.
const lockTime = 2 * time.Second

// lock locks the record, and returns an error if another process runs an experiment into it. The lock ends with this
// process.
func (r *runner) lock() (unlock func(), err error) {
	dir, err := os.Open(r.Dir)
	if err != nil {
		return nil, err
	}
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Since(begin) > lockTime {
			break
		}
	}
	if err != nil {
		dir.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: another mcmwlab is writing to this record; wait until it has ended", r.Dir)
		}
		return nil, fmt.Errorf("locking %s: %w", r.Dir, err)
	}
	return func() { dir.Close() }, nil
}

// readRecord reads the complete runs of the record, after checking that it is one of this experiment.
func (r *runner) readRecord(ctx context.Context) error {
	m := r.record.Manifest()
	switch {
	case r.record.IsText():
		return fmt.Errorf("%s: it is kept as text, to which nothing can be added; begin a new record with --out", r.Dir)
	case m.Experiment != string(r.Experiment.Text):
		return fmt.Errorf("%s: it is a record of another experiment (%s), or the experiment's file has changed "+
			"since; expected the unchanged file", r.Dir, m.Name)
	case !slices.Equal(m.Set, r.Experiment.Set):
		return fmt.Errorf("%s: it was begun with other settings (--set %s); use the same settings", r.Dir,
			cmp.Or(strings.Join(m.Set, " --set "), "missing"))
	case r.Resume && slices.Contains(m.Command, "--quick") != r.Quick:
		return fmt.Errorf("%s: it was begun with another setting of --quick; use the same setting", r.Dir)
	}
	if r.Resume {
		now, err := r.manifest(ctx)
		if err != nil {
			return err
		}
		if changed := record.Changed(m, now); len(changed) > 0 {
			return fmt.Errorf("%s: its runs were made elsewhere or with other programs: %s; continue with the same "+
				"programs on the same hosts, or begin a new record with --out",
				r.Dir, strings.Join(changed, "; "))
		}
	}
	runs, err := r.record.Runs(ctx)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if run.State == record.Complete {
			r.complete[key{run.Point, run.Repetition}] = run
		}
	}
	return nil
}

// measured returns the values of a metric in the complete runs of a point, up to a repetition. The stop rule uses them.
func (r *runner) measured(source, metric string, point, before int) (values []float64) {
	for repetition := range before {
		run, ok := r.complete[key{point, repetition}]
		if !ok {
			continue
		}
		if v, ok := run.Value(source, metric); ok {
			values = append(values, v)
		}
	}
	return values
}

// passes is how often a run with too much foreign load is made at most. The last one counts anyway.
const passes = 3

func (r *runner) runs(ctx context.Context) error {
	r.began = time.Now()
	r.progress.Least, r.progress.Most = r.Experiment.Runs()
	r.progress.Done, r.progress.Skipped = len(r.complete), len(r.complete)
	for n := 1; ; n++ {
		disturbed, err := r.pass(ctx, n == passes)
		if err == nil && disturbed {
			continue
		}
		if err == nil {
			r.tell(nil)
		}
		return err
	}
}

// pass makes the runs of the schedule that the record lacks and that have not failed. disturbed reports that some had
// too much foreign load, and are to be made in another pass: it comes in bursts, and a run made at once would meet the
// same one.
func (r *runner) pass(ctx context.Context, last bool) (disturbed bool, _ error) {
	schedule := r.Experiment.Schedule(r.measured)
	failures := 0
	for {
		slot, ok := schedule.Next()
		if !ok {
			return disturbed, nil
		}
		k := key{slot.Point.Number, slot.Repetition}
		if _, ok := r.complete[k]; ok || r.failed[k] {
			continue
		}
		r.tell(&slot)
		run, again, err := r.run(ctx, slot, last)
		if err != nil {
			return false, err
		}
		disturbed = disturbed || again
		r.made++
		r.progress.Last, r.progress.LastPoint = &run, slot.Point
		switch {
		case again:
			failures = 0
		case run.State == record.Complete:
			failures = 0
			light := run
			light.Windows, light.Histograms, light.HostSamples = nil, nil, nil
			r.complete[k] = light
			r.progress.Done = len(r.complete)
		default:
			failures++
			r.failed[k] = true
			r.progress.Failed++
		}
		if failures == failuresInARow {
			r.tell(nil)
			return false, fmt.Errorf("%d runs in a row have failed; the last error: %s", failures, run.Error)
		}
		select {
		case <-time.After(r.Experiment.Phases.CoolDown):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

func (r *runner) tell(next *experiment.Slot) {
	if r.Progress == nil {
		return
	}
	perRun := r.Experiment.RunTime()
	if r.made > 0 {
		perRun = time.Since(r.began) / time.Duration(r.made)
	}
	r.progress.Next = next
	r.progress.Left = 0
	if next != nil {
		r.progress.Left = perRun * time.Duration(max(r.progress.Most-r.progress.Done-r.progress.Failed, 0))
	}
	r.Progress(r.progress)
}

func (r *runner) checkSet(ctx context.Context) error {
	if r.CheckSet == nil {
		return nil
	}
	runs, err := r.record.Runs(ctx)
	if err != nil {
		return err
	}
	return r.record.SetWarnings(0, r.CheckSet(runs))
}

// writeRaw writes the outputs of a run into its directory. Files already there are left over from a run that was
// killed, and are removed.
func (r *runner) writeRaw(id int64, o *testbed.Outputs) error {
	dir, err := r.record.RawDir(id)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if dir, err = r.record.RawDir(id); err != nil {
		return err
	}
	write := func(name string, content []byte) {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o644)
		}
	}
	for i, text := range o.Loads {
		write(fmt.Sprintf("client-%d.json", i), text)
	}
	for i, text := range o.Middlewares {
		write(fmt.Sprintf("middleware-%d.jsonl", i), text)
	}
	for i, text := range o.Profiles {
		write(record.ProfileFile(i), text)
	}
	for name, text := range o.Hosts {
		write(fmt.Sprintf("host-%s.jsonl", name), text)
	}
	if o.Ground != nil {
		write("host.jsonl", o.Ground)
	}
	if err != nil {
		return fmt.Errorf("writing the outputs of run %d: %w", id, err)
	}
	return nil
}
