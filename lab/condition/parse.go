package condition

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mcmw/internal/userinput"
	"mcmw/lab/frame"
	"mcmw/lab/record"
)

// Scope says what the conditions of one place can be about.
type Scope struct {
	Source string // of a metric without one; "": it must have one
	// Functions maps the names of functions to their arguments, separated by spaces: metric (its runs follow), runs,
	// factor, model, range. A question mark follows optional ones. Plain metrics need the name "".
	Functions map[string]string
	Runs      bool                          // metrics have runs in brackets
	Known     map[string]func(string) error // checks of arguments by kind: factor, model
}

// OfClients has the conditions on means, of the clients unless they name another source.
var OfClients = Scope{Source: record.SourceClient, Functions: map[string]string{"": ""}}

// Units of values that are not those of a metric.
const (
	level = "level" // of a factor: any unit
	part  = record.Ratio
)

// valueUnit returns the unit of a term's value.
func (t Term) valueUnit() string {
	m, _ := record.Describe(t.Metric.Name)
	switch t.Function {
	case "", "plateau":
		return m.Unit
	case "knee":
		return level
	default:
		return part
	}
}

// units has the units in which a value can be written, by the unit in which it is kept.
var units = map[string]map[string]float64{
	record.Seconds:             {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600},
	record.OperationsPerSecond: {"": 1, "/s": 1},
	record.BytesPerSecond:      {"": 1, "KiB/s": 1 << 10, "MiB/s": 1 << 20, "GiB/s": 1 << 30},
	record.Bytes:               {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30},
	part:                       {"": 1, "%": 0.01},
	level:                      {"": 1, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600},
}

// short has the short names of response times.
var short = map[string]string{
	"mean": "response_time_mean", "p50": "response_time_p50", "p90": "response_time_p90", "p95": "response_time_p95",
	"p99":  "response_time_p99",
	"p999": "response_time_p999", "max": "response_time_max",
}

// parser reads a condition. at is the next byte.
type parser struct {
	text  string
	at    int
	scope Scope
}

// Parse reads a condition. Errors say at which character what was expected.
func Parse(text string, scope Scope) (Condition, error) {
	p := &parser{text: text, scope: scope}
	c := Condition{Text: strings.TrimSpace(text), Low: math.Inf(-1), High: math.Inf(1)}
	var err error
	if c.Term, err = p.term(); err == nil {
		err = p.relation(&c)
	}
	if err == nil && p.rest() != "" {
		err = p.expected(p.at, "the end")
	}
	return c, err
}

// ParseTerm reads a term alone.
func ParseTerm(text string, scope Scope) (Term, error) {
	p := &parser{text: text, scope: scope}
	t, err := p.term()
	if err == nil && p.rest() != "" {
		err = p.expected(p.at, "the end")
	}
	return t, err
}

// expected returns an error about the text at a byte.
func (p *parser) expected(at int, format string, args ...any) error {
	found := "the end"
	if rest := p.text[at:]; rest != "" {
		found = fmt.Sprintf("%q", regexp.MustCompile(`^[^\s<>=\[\](),]+|^.`).FindString(rest))
	}
	return fmt.Errorf("%q, character %d: expected %s, not %.60s", p.text, utf8.RuneCountInString(p.text[:at])+1,
		fmt.Sprintf(format, args...), found)
}

// rest skips blanks and returns what is left.
func (p *parser) rest() string {
	p.at += len(p.text[p.at:]) - len(strings.TrimLeft(p.text[p.at:], " \t\n"))
	return p.text[p.at:]
}

// next consumes a token if it is the next one.
func (p *parser) next(token string) bool {
	if !strings.HasPrefix(p.rest(), token) {
		return false
	}
	p.at += len(token)
	return true
}

var (
	wordForm   = regexp.MustCompile(`^[^\s<>=\[\](),]+`)
	levelForm  = regexp.MustCompile(`^[^\[\],]+`)
	numberForm = regexp.MustCompile(`^[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?`)
	unitForm   = regexp.MustCompile(`^(?:%|/s|[a-zA-Zµ]+(?:/s)?)`)
	namesForm  = regexp.MustCompile(`^[^<>=\[\](),]+`)
	orForm     = regexp.MustCompile(`\s+or\s+`)
)

// take consumes what matches a form; "" if nothing does.
func (p *parser) take(form *regexp.Regexp) string {
	found := form.FindString(p.rest())
	p.at += len(found)
	return strings.TrimSpace(found)
}

func (p *parser) term() (t Term, err error) {
	p.rest()
	start := p.at
	name := p.take(wordForm)
	if name == "" {
		return t, p.expected(start, "%s", p.terms())
	}
	if !p.next("(") {
		if _, plain := p.scope.Functions[""]; !plain {
			return t, p.expected(start, "%s", p.terms())
		}
		p.at = start
		err = p.metric(&t)
		return t, err
	}
	arguments, known := p.scope.Functions[name]
	if !known {
		return t, p.expected(start, "%s", p.terms())
	}
	t.Function = name
	for i, kind := range strings.Fields(arguments) {
		kind, optional := strings.CutSuffix(kind, "?")
		if i > 0 && !p.next(",") {
			if optional {
				break
			}
			return t, p.expected(p.at, "a comma and %s of %s", kind, name)
		}
		if err := p.argument(&t, kind); err != nil {
			return t, err
		}
	}
	if !p.next(")") {
		return t, p.expected(p.at, "a closing parenthesis of %s", name)
	}
	return t, nil
}

// terms names what a condition can begin with.
func (p *parser) terms() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(p.scope.Functions)) {
		if name != "" {
			names = append(names, name+"(...)")
		}
	}
	if _, plain := p.scope.Functions[""]; plain {
		names = append([]string{"a metric such as " + p.example()}, names...)
	}
	return strings.Join(names, " or ")
}

func (p *parser) example() string {
	if p.scope.Source == "" {
		return "client.response_time_p99"
	}
	return "throughput or p99"
}

func (p *parser) argument(t *Term, kind string) (err error) {
	p.rest()
	start := p.at
	switch kind {
	case "metric":
		return p.metric(t)
	case "runs":
		return p.runs(t)
	case "range":
		t.Range.Low, t.Range.High, err = p.ends(level)
		return err
	}
	word := p.take(wordForm)
	if word == "" {
		return p.expected(start, "a %s", kind)
	}
	if check := p.scope.Known[kind]; check != nil {
		if err := check(word); err != nil {
			return p.expected(start, "%s", err)
		}
	}
	t.Words = append(t.Words, word)
	return nil
}

func (p *parser) metric(t *Term) (err error) {
	p.rest()
	start := p.at
	name := p.take(wordForm)
	long := strings.TrimSuffix(name, "p99.9")
	if long != name {
		long += "p999"
	}
	if i := strings.LastIndexByte(long, '.') + 1; short[long[i:]] != "" {
		long = long[:i] + short[long[i:]]
	}
	if t.Metric, err = frame.ParseMetric(long, p.scope.Source); err != nil {
		return p.expected(start, "a metric such as %s", p.example())
	}
	if p.scope.Runs && strings.HasPrefix(p.rest(), "[") {
		return p.runs(t)
	}
	return nil
}

func (p *parser) runs(t *Term) error {
	if !p.next("[") {
		return p.expected(p.at, "runs such as [EXPERIMENT, FACTOR=LEVEL]")
	}
	start := p.at
	r := Runs{Record: p.take(wordForm)}
	if !recordForm.MatchString(r.Record) {
		return p.expected(start, "the name of an experiment")
	}
	for !p.next("]") {
		if !p.next(",") {
			return p.expected(p.at, "a comma or ]")
		}
		p.rest()
		start := p.at
		factor, value := p.take(wordForm), ""
		if p.next("=") {
			value = p.take(levelForm)
		}
		switch check := p.scope.Known["factor"]; {
		case factor == "highest" && value == "":
			r.Highest = true
			continue
		case factor == "" || value == "":
			return p.expected(start, "FACTOR=LEVEL or highest")
		case check != nil && check(factor) != nil:
			return p.expected(start, "%s", check(factor))
		case r.Where[factor] != "":
			return p.expected(start, "every factor once")
		case r.Where == nil:
			r.Where = map[string]string{}
		}
		r.Where[factor] = value
	}
	t.Runs = append(t.Runs, r)
	return nil
}

// recordForm matches the names of experiments.
var recordForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// relation reads what follows the term.
func (p *parser) relation(c *Condition) (err error) {
	unit := c.Term.valueUnit()
	switch {
	case c.Term.Function == "bottleneck":
		if !p.next("is ") {
			return p.expected(p.at, `"is" and the name of a component`)
		}
		if c.Names = orForm.Split(p.take(namesForm), -1); slices.Contains(c.Names, "") {
			return p.expected(p.at, "the name of a component")
		}
	case p.next("<="):
		c.High, err = p.value(unit)
	case p.next("<"):
		c.Strict = true
		c.High, err = p.value(unit)
	case p.next(">="):
		c.Low, err = p.value(unit)
	case p.next(">"):
		c.Strict = true
		c.Low, err = p.value(unit)
	case p.next("in "):
		c.Low, c.High, err = p.ends(unit)
	default:
		return p.expected(p.at, "<, <=, >, >= or in")
	}
	return err
}

// ends reads LOW..HIGH.
func (p *parser) ends(unit string) (low, high float64, err error) {
	p.rest()
	start := p.at
	if low, err = p.value(unit); err != nil {
		return 0, 0, err
	}
	if !p.next("..") {
		return 0, 0, p.expected(p.at, "LOW..HIGH")
	}
	if high, err = p.value(unit); err == nil && !(low < high) {
		err = p.expected(start, "a low end below the high one")
	}
	return low, high, err
}

// value reads a number with its unit.
func (p *parser) value(unit string) (float64, error) {
	p.rest()
	start := p.at
	accepted, ok := units[unit]
	if !ok {
		accepted = map[string]float64{"": 1}
	}
	number := p.take(numberForm)
	v, err := strconv.ParseFloat(number, 64)
	if err != nil { // or infinite
		return 0, p.expected(start, "a number%s", written(accepted))
	}
	end := p.at
	name := unitForm.FindString(p.rest())
	if _, ok := accepted[name]; !ok && p.at > end {
		name, p.at = "", end // a word after a blank
	}
	size, ok := accepted[name]
	if !ok && v != 0 || !ok && name != "" {
		return 0, p.expected(start, "a number%s%s", written(accepted), p.asChange(name))
	}
	p.at += len(name)
	return v * max(size, 0), nil
}

// asChange says how a change is written.
func (p *parser) asChange(unit string) string {
	if _, known := p.scope.Functions["change"]; !known || unit != "%" {
		return ""
	}
	return " (a change is written change(METRIC))"
}

// written names the units that can follow a number.
func written(accepted map[string]float64) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(accepted)),
		func(name string) bool { return name == "" || name == "µs" })
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(accepted[a], accepted[b]) })
	_, without := accepted[""]
	switch {
	case len(names) == 0:
		return ""
	case without:
		return ", optionally with " + strings.Join(names, ", ")
	default:
		return " with a unit: " + strings.Join(names, ", ")
	}
}

// Suggest is a check of a scope: a word must be one of the names.
func Suggest(what string, names []string) func(string) error {
	return func(word string) error {
		if slices.Contains(names, word) {
			return nil
		}
		return fmt.Errorf("%s%s", what, userinput.DidYouMean(word, names))
	}
}
