package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/userinput"
)

// Problem is one mistake in a file.
type Problem struct {
	Line int    // from 1; 0 for the file as a whole
	In   string // the included file that has it; "": the file itself
	Key  string // such as run.duration; "" for the file as a whole
	Text string // what is wrong and what is expected
}

// Problems has all mistakes in a file, in the order of its lines. As an error it is never empty.
type Problems struct {
	File string
	List []Problem
}

// Error returns a line for each problem.
func (p *Problems) Error() string {
	lines := make([]string, len(p.List))
	for i, problem := range p.List {
		where := cmp.Or(problem.In, p.File)
		if problem.Line > 0 {
			where += ":" + strconv.Itoa(problem.Line)
		}
		if problem.Key != "" {
			where += ": " + problem.Key
		}
		lines[i] = where + ": " + problem.Text
	}
	return strings.Join(lines, "\n")
}

const (
	// maxPoints and maxRepetitions are more than anybody needs; they catch typing errors.
	maxPoints      = 100_000
	maxRepetitions = 10_000
	maxTitle       = 200
)

// nameForm matches the names of experiments. They are also names of directories.
var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// Parse reads an experiment. file is its name in errors. With quick, the settings of the file's quick profile replace
// the others. Settings in set change the file's. The error is *Problems, or says which setting is malformed.
func Parse(file string, text []byte, quick bool, set ...string) (*Experiment, error) {
	d := &decoder{}
	root, err := change(d.root(text, "an experiment, such as those in experiments/"), set)
	if err != nil {
		return nil, err
	}
	e := d.experiment(root, quick)
	if err := d.err(file); err != nil {
		return nil, err
	}
	e.Text, e.Set = text, set
	return e, nil
}

// HasQuick reports whether the text of a valid file has a quick profile.
func HasQuick(text []byte) bool {
	root, _, _, err := mapping(text)
	return err == nil && root != nil && child(root, "quick") != nil
}

// decoder collects the problems of one file.
type decoder struct {
	problems []Problem
	include  string // name of the included file
	own      int    // lines of the text before those of the file itself
}

// fields has a function for each accepted key of a mapping, which reads the value. Its first argument is the path of
// the key.
type fields map[string]func(key string, n *yaml.Node)

// err returns the problems in the order of the lines, or nil.
func (d *decoder) err(file string) error {
	if len(d.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(d.problems, func(a, b Problem) int { return a.Line - b.Line })
	for i := range d.problems {
		switch p := &d.problems[i]; {
		case p.Line > d.own:
			p.Line -= d.own
		case p.Line > 0 && d.own > 0:
			p.In = filepath.Join(filepath.Dir(file), cmp.Or(d.include, "the included file"))
		}
	}
	return &Problems{file, slices.Compact(d.problems)}
}

func (d *decoder) problem(n *yaml.Node, key, format string, args ...any) {
	line := 0
	if n != nil {
		line = n.Line
	}
	d.problems = append(d.problems, Problem{Line: line, Key: key, Text: fmt.Sprintf(format, args...)})
}

// file has the decoded parts of a file before design combines and checks them. Fields named ...At are where a part is,
// nil if it is missing.
type file struct {
	constants   Values
	factors     []Factor
	factorsAt   *yaml.Node
	fraction    []Factor // each with the factors whose product it is
	fractionAt  *yaml.Node
	points      []Values
	pointsAt    []*yaml.Node
	repeats     *yaml.Node
	stop        *yaml.Node
	quality     *yaml.Node
	constantsAt map[string]*yaml.Node
	cases       map[string]Values
}

// root returns the mapping in a file; nil after a problem. expected describes the content for the error about an empty
// file.
func (d *decoder) root(text []byte, expected string) *yaml.Node {
	root, own, include, err := mapping(text)
	d.own, d.include = own, include
	if problem, ok := errors.AsType[*userinput.Problem](err); ok {
		d.problems = append(d.problems, Problem{Line: problem.Line, Text: problem.Text})
		return nil
	}
	if root == nil {
		d.problem(nil, "", "the file is empty; expected %s", expected)
	}
	return root
}

// experiment reads the content of a file; nil after a problem.
func (d *decoder) experiment(root *yaml.Node, quick bool) *Experiment {
	e := &Experiment{
		Testbed: LocalTestbed, Dilation: 1, Systems: builtIn, Order: Interleaved, Repetitions: 3,
		Kubernetes: Kubernetes{Chart: DefaultChart},
		Phases:     Phases{Populate: true, Restart: true, WarmUp: 2 * time.Second, Duration: 10 * time.Second},
	}
	if root == nil {
		return nil
	}
	if quick {
		if root = d.quicken(root); root == nil {
			return nil
		}
	}
	f := &file{constants: Values{}, constantsAt: map[string]*yaml.Node{}}
	seen := d.mapping(root, "", fields{
		"include": func(key string, n *yaml.Node) { d.problem(n, key, "not read; expected in a file that Read reads") },
		"name": func(key string, n *yaml.Node) {
			e.Name = d.scalar(n, key, "lower-case letters, digits, . _ -, at most 64", nameForm.MatchString)
		},
		"title": func(key string, n *yaml.Node) {
			e.Title = d.scalar(n, key, fmt.Sprintf("a line of at most %d bytes", maxTitle),
				func(s string) bool { return len(s) <= maxTitle && !strings.Contains(s, "\n") })
		},
		"testbed":   func(key string, n *yaml.Node) { d.testbed(n, key, e) },
		"systems":   func(key string, n *yaml.Node) { e.Systems = d.systems(n, key) },
		"cases":     func(key string, n *yaml.Node) { f.cases = d.cases(n, key) },
		"constants": func(key string, n *yaml.Node) { f.constants = d.values(n, key, f.constantsAt) },
		"factors":   func(key string, n *yaml.Node) { f.factors, f.factorsAt = d.factors(n, key), n },
		"fraction":  func(key string, n *yaml.Node) { f.fraction, f.fractionAt = d.fraction(n, key), n },
		"points": func(key string, n *yaml.Node) {
			for _, element := range d.list(n, key, "mappings of settings to values") {
				f.points = append(f.points, d.values(element, key, map[string]*yaml.Node{}))
				f.pointsAt = append(f.pointsAt, element)
			}
		},
		"order": func(key string, n *yaml.Node) { e.Order = Order(d.word(n, key, orders)) },
		"seed": func(key string, n *yaml.Node) {
			e.Seed, _ = strconv.ParseUint(d.scalar(n, key, "a whole number from 0", func(s string) bool {
				_, err := strconv.ParseUint(s, 10, 63)
				return err == nil
			}), 10, 63)
		},
		"repetitions": func(key string, n *yaml.Node) {
			e.Repetitions, f.repeats = d.whole(n, key, 1, maxRepetitions), n
		},
		"run":     func(key string, n *yaml.Node) { d.phases(n, key, &e.Phases) },
		"stop":    func(key string, n *yaml.Node) { e.Stop, f.stop = d.stop(n, key), n },
		"quality": func(key string, n *yaml.Node) { e.Quality, f.quality = d.quality(n, key), n },
		"quick":   func(string, *yaml.Node) {}, // read by quicken; a quick run checks it
	})
	if !seen["name"] {
		d.problem(nil, "", "no name; expected a line such as name: quick")
	}
	switch {
	case f.stop != nil && f.repeats != nil && f.repeats.Line > 0:
		d.problem(f.repeats, "repetitions",
			"given together with stop, which has the number of repetitions (at_least, at_most); expected one of them")
	case e.Order == Paired && (len(f.factors) == 0 || f.fractionAt != nil):
		d.problem(root, "order",
			"paired needs a full design; expected factors without fraction, the last one with the levels to compare")
	case e.Quality != nil && e.Quality.GiveUp > 0 && e.Order == Random:
		d.problem(f.quality, "quality.give_up",
			"the order random schedules all runs before the first; expected order listed, or interleaved, which "+
				"gives up after the first round")
	case f.stop != nil && e.Order == Random:
		d.problem(f.stop, "stop",
			"the order random schedules all runs before the first; expected order interleaved or listed with a stop "+
				"rule")
	}
	e.completeMachines()
	if len(d.problems) == 0 {
		d.design(e, f)
		d.checkDilation(e, child(root, "testbed"))
		if e.Quality != nil {
			d.checkQuality(e, f.quality)
		}
	}
	return e
}

// quicken returns the file with the settings of its quick profile applied; nil after a problem.
func (d *decoder) quicken(root *yaml.Node) *yaml.Node {
	profile := child(root, "quick")
	if profile == nil {
		d.problem(root, "", "there is no quick profile; expected the key quick with the settings of quick runs")
		return nil
	}
	if profile.Kind != yaml.MappingNode {
		d.problem(profile, "quick", "not a mapping; expected the settings of quick runs, such as repetitions: 1")
		return nil
	}
	for i := 0; i < len(profile.Content); i += 2 {
		switch key := profile.Content[i]; key.Value {
		case "name", "quick":
			d.problem(key, "quick."+key.Value, "a quick profile can't change it")
			return nil
		}
	}
	return overlay(root, profile)
}

func (d *decoder) testbed(n *yaml.Node, key string, e *Experiment) {
	if n.Kind == yaml.ScalarNode {
		e.Testbed = d.word(n, key, testbeds)
		return
	}
	k := &e.Kubernetes
	seen := d.mapping(n, key, fields{
		"kind": func(key string, n *yaml.Node) { e.Testbed = d.word(n, key, testbeds) },
		"cpus": func(key string, n *yaml.Node) {
			e.CPUs = map[string][]int{}
			d.roles(n, key, func(role, key string, n *yaml.Node) {
				for _, element := range d.list(n, key, "numbers of processors, from 0") {
					e.CPUs[role] = append(e.CPUs[role], d.whole(element, key, 0, maxProcessor))
				}
			})
		},
		"hosts": func(key string, n *yaml.Node) {
			e.Machines = map[string]Machine{}
			d.roles(n, key, func(role, key string, n *yaml.Node) { e.Machines[role] = d.machine(n, key) })
		},
		"delay": func(key string, n *yaml.Node) {
			e.Delay = d.duration(n, key, "a duration such as 0.5ms, at most "+maxDelay.String(), 0, maxDelay)
		},
		"dilation": func(key string, n *yaml.Node) { e.Dilation = d.dilation(n, key) },
		"inventory": func(key string, n *yaml.Node) {
			e.Inventory = d.text(n, key, "the path of an inventory of hosts")
		},
		"chart": func(key string, n *yaml.Node) { k.Chart = d.text(n, key, "the path of the chart") },
		"values": func(key string, n *yaml.Node) {
			for _, element := range d.list(n, key, "paths of files with values of the chart") {
				k.Values = append(k.Values, d.text(element, key, "the path of a file"))
			}
		},
		"context": func(key string, n *yaml.Node) { k.Context = d.text(n, key, "a context of kubectl") },
		"namespace": func(key string, n *yaml.Node) {
			k.Namespace = d.scalar(n, key, "lower-case letters, digits and -, at most 63", namespaceForm.MatchString)
		},
	})
	d.checkKind(n, key, seen, e.Testbed)
}

// values reads settings and their values; at gets the node of each.
func (d *decoder) values(n *yaml.Node, key string, at map[string]*yaml.Node) Values {
	v := Values{}
	d.settings(n, key, func(s *Setting, key string, n *yaml.Node) {
		v[s.Name] = d.level(n, key, s)
		at[s.Name] = n
	})
	return v
}

func (d *decoder) factors(n *yaml.Node, key string) (factors []Factor) {
	d.settings(n, key, func(s *Setting, key string, n *yaml.Node) {
		f := Factor{Name: s.Name}
		for _, element := range d.list(n, key, "levels: "+s.Accepts) {
			problems := len(d.problems)
			level := d.level(element, key, s)
			// An invalid level is "" and has been reported.
			if len(d.problems) == problems && slices.Contains(f.Levels, level) {
				d.problem(element, key, "the level %q occurs twice", level)
			}
			f.Levels = append(f.Levels, level)
		}
		factors = append(factors, f)
	})
	return factors
}

// fraction reads the factors that are products of others.
func (d *decoder) fraction(n *yaml.Node, key string) (products []Factor) {
	if n.Kind == yaml.SequenceNode {
		d.problem(n, key, "expected each product with its factors: {c: [a, b]} instead of [c = a*b]")
		return nil
	}
	d.settings(n, key, func(s *Setting, key string, n *yaml.Node) {
		product := Factor{Name: s.Name}
		for _, element := range d.list(n, key, "factors") {
			product.Levels = append(product.Levels,
				d.scalar(element, key, "a factor", func(string) bool { return true }))
		}
		products = append(products, product)
	})
	return products
}

func (d *decoder) settings(n *yaml.Node, key string, read func(s *Setting, key string, n *yaml.Node)) {
	keys := fields{}
	for i := range Settings {
		keys[Settings[i].Name] = func(key string, n *yaml.Node) { read(&Settings[i], key, n) }
	}
	d.mapping(n, key, keys)
}

func (d *decoder) level(n *yaml.Node, key string, s *Setting) string {
	return d.scalar(n, key, s.Accepts, s.check)
}

func (d *decoder) phases(n *yaml.Node, key string, p *Phases) {
	duration := func(low time.Duration, to *time.Duration) func(string, *yaml.Node) {
		accepts := "a duration such as 10s"
		if low > 0 {
			accepts += ", at least " + low.String()
		}
		return func(key string, n *yaml.Node) { *to = d.duration(n, key, accepts, low, maxTime) }
	}
	d.mapping(n, key, fields{
		"populate": func(key string, n *yaml.Node) {
			p.Populate = d.word(n, key, []string{"true", "false"}) == "true"
		},
		"restart":   func(key string, n *yaml.Node) { p.Restart = d.word(n, key, []string{"true", "false"}) == "true" },
		"warm_up":   duration(0, &p.WarmUp),
		"duration":  duration(minDuration, &p.Duration),
		"cool_down": duration(0, &p.CoolDown),
		"foreign_load": func(key string, n *yaml.Node) {
			p.ForeignLoad = d.number(n, key, 0, 1)
		},
	})
}

// minDuration is the shortest recording. It has a few of the middleware's shortest windows.
const minDuration = 500 * time.Millisecond

// mapping reads the keys of a mapping and returns the keys that it has.
func (d *decoder) mapping(n *yaml.Node, at string, known fields) map[string]bool {
	seen := map[string]bool{}
	names := slices.Sorted(maps.Keys(known))
	if n.Kind != yaml.MappingNode {
		d.problem(n, at, "not a mapping; expected some of the keys %s", strings.Join(names, ", "))
		return seen
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], userinput.Resolve(n.Content[i+1])
		path := strings.TrimPrefix(at+"."+key.Value, ".")
		read, ok := known[key.Value]
		switch {
		case !ok && userinput.Suggest(key.Value, names) != "":
			d.problem(key, at, "unknown key %q%s", key.Value, userinput.DidYouMean(key.Value, names))
		case !ok:
			d.problem(key, at, "unknown key %q; expected one of %s", key.Value, strings.Join(names, ", "))
		case seen[key.Value]:
			d.problem(key, path, "the key occurs twice")
		case userinput.IsNull(value):
			d.problem(key, path, "the value is missing")
		default:
			read(path, value)
		}
		seen[key.Value] = true
	}
	return seen
}

// list returns the elements of a list, which must not be empty.
func (d *decoder) list(n *yaml.Node, key, accepts string) (elements []*yaml.Node) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.problem(n, key, "expected a list, such as [a, b], of %s", accepts)
		return nil
	}
	for _, element := range n.Content {
		elements = append(elements, userinput.Resolve(element))
	}
	return elements
}

// scalar returns a scalar value that fits; "" after a problem. accepts describes the values for the error.
func (d *decoder) scalar(n *yaml.Node, key, accepts string, fits func(string) bool) string {
	switch {
	case n.Kind != yaml.ScalarNode || userinput.IsNull(n):
		d.problem(n, key, "expected one value: %s", accepts)
	case !fits(n.Value):
		d.problem(n, key, "%.60q; expected %s", n.Value, accepts)
	default:
		return n.Value
	}
	return ""
}

// word returns one of the words; "" after a problem.
func (d *decoder) word(n *yaml.Node, key string, words []string) string {
	accepts := strings.Join(words, ", ")
	if n.Kind == yaml.ScalarNode {
		accepts += userinput.DidYouMean(n.Value, words)
	}
	return d.scalar(n, key, "one of "+accepts, func(s string) bool { return slices.Contains(words, s) })
}

// whole returns a whole number; 0 after a problem.
func (d *decoder) whole(n *yaml.Node, key string, low, high int) int {
	number, _ := strconv.Atoi(d.scalar(n, key, fmt.Sprintf("a whole number from %d to %d", low, high),
		func(s string) bool { return isWhole(s, low, high) }))
	return number
}

// duration returns a time. The value after a problem is not used.
func (d *decoder) duration(n *yaml.Node, key, accepts string, low, high time.Duration) (v time.Duration) {
	d.scalar(n, key, accepts, func(text string) (ok bool) {
		v, ok = parseTime(text)
		return ok && v >= low && v <= high
	})
	return v
}

// number returns a number; 0 after a problem.
func (d *decoder) number(n *yaml.Node, key string, low, high float64) float64 {
	number, _ := strconv.ParseFloat(d.scalar(n, key, fmt.Sprintf("a number more than %g and less than %g", low, high),
		func(s string) bool {
			v, err := strconv.ParseFloat(s, 64)
			return err == nil && v > low && v < high
		}), 64)
	return number
}
