// Package runner makes the runs of an experiment on a testbed and keeps their measurements in a record.
//
//	schedule -> deploy (or use what runs) -> populate -> load, measured -> collect -> check -> record
//
// The record is the only state: an experiment that was interrupted at any moment continues from the complete runs in it. A run that
// fails is recorded as failed, with the reason, and the next one is made; after several failures in a row, or when the record can't be
// written, the experiment ends.
package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"mcmw/internal/lab/experiment"
	"mcmw/internal/lab/record"
	"mcmw/internal/lab/testbed"
)

// failuresInARow is how many runs in a row may fail before the experiment ends: the next would fail too.
const failuresInARow = 3

// pathBulk is for how long each direction of the path carries bulk, a fifth of a run's measured time at most.
const pathBulk = 500 * time.Millisecond

// Options say what to run and where to keep the measurements.
type Options struct {
	Experiment *experiment.Experiment
	Testbed    testbed.Testbed
	// Dir is the record's directory. It must not exist or be empty, unless Resume is set: then it must be a record of the same
	// experiment.
	Dir    string
	Resume bool
	// Command is the command line, for the record. Quick says whether it asks for the quick profile.
	Command []string
	Quick   bool
	// Check returns warnings about a run of a set; nil: no checks.
	Check func(run record.Run, set record.Manifest) []record.Warning
	// CheckSet does the same for all runs together.
	CheckSet func([]record.Run) []record.Warning
	// Progress, if set, is called before every run and after the last.
	Progress func(Progress)
}

// Progress is the progress of an experiment.
type Progress struct {
	Done, Failed int // runs complete ones, and those that failed this time
	Skipped      int // of the complete ones, those that existed before
	Least, Most  int // runs there will be
	Left         time.Duration
	Last         *record.Run // that has just ended; nil at first
	LastPoint    *experiment.Point
	Next         *experiment.Slot // nil at the end
}

// Summary is the result of an experiment.
type Summary struct {
	Complete, Failed, Skipped, Warnings int
}

// key tells runs of an experiment apart.
type key struct{ point, repetition int }

// runner is an experiment under way.
type runner struct {
	Options
	record     *record.Record
	complete   map[key]record.Run // light
	deployment testbed.Deployment // nil if none runs
	deployed   experiment.Values  // what it is for
	populated  experiment.Values  // what it holds; nil: nothing
	progress   Progress
	began      time.Time
	made       int // runs this time
}

// Run makes the missing runs of the record. If the experiment ends early, the summary is that of the runs so far, and the error says why;
// if ctx ended it is the cause. All programs that it started have ended when it returns.
func Run(ctx context.Context, o Options) (s Summary, err error) {
	r := &runner{Options: o, complete: map[key]record.Run{}}
	unlock, err := r.open(ctx)
	if err != nil {
		return s, err
	}
	defer unlock()
	defer func() { err = errors.Join(err, r.record.Close()) }()
	defer r.undeploy()
	err = r.runs(ctx)
	checkErr := r.checkSet(context.WithoutCancel(ctx))
	s = Summary{Complete: r.progress.Done, Failed: r.progress.Failed, Skipped: r.progress.Skipped}
	if err == nil {
		err = checkErr
	}
	if err == nil && s.Failed > 0 {
		err = fmt.Errorf("%d of %d runs failed; make them again with --resume", s.Failed, s.Failed+s.Complete)
	}
	return s, err
}

// open makes or opens the record and takes it for this process alone.
func (r *runner) open(ctx context.Context) (unlock func(), err error) {
	if !r.Resume {
		if err := r.create(ctx); err != nil {
			return nil, err
		}
	} else if r.record, err = record.Open(r.Dir); err != nil {
		return nil, err
	}
	if unlock, err = r.lock(); err == nil {
		if err = r.recall(ctx); err == nil {
			return unlock, nil
		}
		unlock()
	}
	return nil, errors.Join(err, r.record.Close())
}

func (r *runner) create(ctx context.Context) (err error) {
	if entries, err := os.ReadDir(r.Dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s: %w: --resume goes on with what is there, --out chooses another directory", r.Dir, record.ErrExists)
	}
	e := r.Experiment
	m := record.Manifest{
		Name: e.Name, Title: e.Title, Created: time.Now().UTC(), Command: r.Command, Experiment: string(e.Text), Testbed: e.Testbed, Seed: e.Seed,
	}
	description, err := r.Testbed.Describe(ctx)
	if err != nil {
		return err
	}
	m.Versions, m.Host, m.Machines, m.Shortfalls = description.Versions, description.Host, description.Machines, description.Shortfalls
	m.Dilation = description.Dilation
	if m.Path, err = r.Testbed.MeasurePath(ctx, min(pathBulk, e.Phases.Duration/5)); err != nil {
		return err
	}
	r.record, err = record.Create(r.Dir, m)
	return err
}

// lockTime is how long a lock is waited for: a program that a killed lab was starting holds the lab's until it is executed.
const lockTime = 2 * time.Second

// lock refuses a record that another process is running an experiment into. The lock ends with the process.
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
			return nil, fmt.Errorf("%s: another mcmwlab runs into this record; wait for its end", r.Dir)
		}
		return nil, fmt.Errorf("locking %s: %w", r.Dir, err)
	}
	return func() { dir.Close() }, nil
}

// recall takes in what the record holds already.
func (r *runner) recall(ctx context.Context) error {
	m := r.record.Manifest()
	switch {
	case m.Experiment != string(r.Experiment.Text):
		return fmt.Errorf("%s: it is a record of another experiment (%s), or its file was changed since; expected the file as it was", r.Dir, m.Name)
	case r.Resume && m.Testbed != r.Experiment.Testbed:
		return fmt.Errorf("%s: it was begun on the testbed %s, not on %s; expected the same", r.Dir, m.Testbed, r.Experiment.Testbed)
	case r.Resume && slices.Contains(m.Command, "--quick") != r.Quick:
		return fmt.Errorf("%s: it was begun with another choice of --quick; expected the same", r.Dir)
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

// measured returns the values of a metric by which the stop rule decides.
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

func (r *runner) runs(ctx context.Context) error {
	r.began = time.Now()
	r.progress.Least, r.progress.Most = r.Experiment.Runs()
	schedule := r.Experiment.Schedule(r.measured)
	failures := 0
	for {
		slot, ok := schedule.Next()
		if !ok {
			r.tell(nil)
			return nil
		}
		if _, ok := r.complete[key{slot.Point.Number, slot.Repetition}]; ok {
			r.progress.Done++
			r.progress.Skipped++
			continue
		}
		r.tell(&slot)
		run, err := r.run(ctx, slot)
		if err != nil {
			return err
		}
		r.made++
		r.progress.Last, r.progress.LastPoint = &run, slot.Point
		if run.State == record.Complete {
			failures = 0
			r.progress.Done++
			light := run
			light.Windows, light.Histograms, light.HostSamples = nil, nil, nil
			r.complete[key{run.Point, run.Repetition}] = light
		} else {
			failures++
			r.progress.Failed++
		}
		if failures == failuresInARow {
			r.tell(nil)
			return fmt.Errorf("%d runs in a row have failed, the last because: %s", failures, run.Error)
		}
		if err := pause(ctx, r.Experiment.Phases.CoolDown); err != nil {
			return err
		}
	}
}

func (r *runner) tell(next *experiment.Slot) {
	if r.Progress == nil {
		return
	}
	each := r.Experiment.RunTime()
	if r.made > 0 {
		each = time.Since(r.began) / time.Duration(r.made)
	}
	r.progress.Next = next
	r.progress.Left = 0
	if next != nil {
		r.progress.Left = each * time.Duration(max(r.progress.Most-r.progress.Done-r.progress.Failed, 0))
	}
	r.Progress(r.progress)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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

// writeRaw keeps the outputs of a run. A directory of that number without a run in the record is what is left of one that was
// killed while it was written.
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
	for name, text := range o.Hosts {
		write(fmt.Sprintf("host-%s.jsonl", name), text)
	}
	if o.Ground != nil {
		write("host.jsonl", o.Ground)
	}
	if err != nil {
		return fmt.Errorf("keeping the outputs of run %d: %w", id, err)
	}
	return nil
}
