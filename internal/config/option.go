package config

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// Option describes one option: its names, default, range and meaning.
type Option struct {
	// Name is the long flag and the file's key. Env derives the environment variable from it.
	Name string
	// Short is the one-letter flag, "" if there is none.
	Short string
	// Default is the value if no source gives one, as the operator would write it.
	Default string
	// Help says what the option does.
	Help string
	// Group is the heading under which the documentation lists the option.
	Group string

	traits trait
	kind   kind
}

// trait is what is true of an option, whatever its value.
type trait uint8

const (
	perPool  trait = 1 << iota // a pool may have its own value
	poolOnly                   // the option is accepted in a pool and nowhere else
	live                       // a reload may change the value while mcmw runs
	local                      // the value may differ between the instances of a fleet, in front of the same servers
)

// opt returns an option. Its default is formatted as its kind is; nil: it has none.
func opt(name string, byDefault any, traits trait, kind kind, help string) *Option {
	o := &Option{Name: name, Help: help, traits: traits, kind: kind}
	switch d := byDefault.(type) {
	case nil:
	case time.Duration:
		o.Default = formatDuration(d)
	case int:
		o.Default = map[bool]func(int) string{false: strconv.Itoa, true: formatSize}[kind.ranged](d)
	default:
		o.Default = fmt.Sprint(d)
	}
	return o
}

// letter sets the option's one-letter flag.
func (o *Option) letter(short string) *Option {
	o.Short = short
	return o
}

// in puts options under a heading of the documentation.
func in(group string, options ...*Option) []*Option {
	for _, o := range options {
		o.Group = group
	}
	return options
}

// PerPool says that a pool may have its own value.
func (o *Option) PerPool() bool { return o.traits&perPool != 0 }

// PoolOnly says that the option is accepted in a pool and nowhere else.
func (o *Option) PoolOnly() bool { return o.traits&poolOnly != 0 }

// Live says whether a reload may change the value while mcmw runs. A reload that changes any other option is refused.
func (o *Option) Live() bool { return o.traits&live != 0 }

// Env returns the name of the option's environment variable.
func (o *Option) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
}

// Accepts says which values are accepted.
func (o *Option) Accepts() string { return o.kind.accepts }

// usage returns the help of the option's flag: what the option does and, unless the placeholder shows it, what is
// accepted. pflag would show what is in back quotes as the placeholder.
func (o *Option) usage() string {
	placeholder, help := o.kind.placeholder, strings.ReplaceAll(o.Help, "`", `"`)
	if words := o.Words(); words != nil && placeholder == strings.Join(words, "|") {
		return help
	}
	return help + " [" + o.Accepts() + "]"
}

// Words returns the accepted words, for shell completion; nil if the option takes other values.
func (o *Option) Words() []string { return o.kind.words }

// TakesFile says whether the value is the path of a file, for shell completion.
func (o *Option) TakesFile() bool { return o.kind.placeholder == filePlaceholder }

// Schema returns a JSON schema of the option's values in a YAML file, for files that contain them, such as a chart's
// values. A value that it accepts may still be refused: a schema does not compare values with units.
func (o *Option) Schema() map[string]any { return maps.Clone(o.kind.schema) }

// Range returns the minimum and maximum of a size, in bytes, or of a time, in nanoseconds, which a schema can't
// compare; ok is false for other options.
func (o *Option) Range() (least, most int64, ok bool) {
	return o.kind.least, o.kind.most, o.kind.ranged
}

// inFile says whether the option is accepted at the top level of the file.
func (o *Option) inFile() bool { return o.Name != optionConfig && !o.PoolOnly() }

// flags returns the option's flags, the short one first.
func (o *Option) flags() string {
	if o.Short != "" {
		return "-" + o.Short + ", --" + o.Name
	}
	return "--" + o.Name
}

// InFileOnly says whether only the file can set the option.
func (o *Option) InFileOnly() bool { return o.PoolOnly() || o.kind.placeholder == "" }

// isList says whether the option takes several values.
func (o *Option) isList() bool { return o.kind.reset != nil }

// split returns the values in s, which a list separates by commas.
func (o *Option) split(s string, origin Origin) []given {
	if !o.isList() {
		return []given{{text: s, origin: origin}}
	}
	var values []given
	for part := range strings.SplitSeq(s, ",") {
		values = append(values, given{text: strings.TrimSpace(part), origin: origin})
	}
	return values
}

// set parses one source's values into c, replacing those of earlier sources. If it returns problems, the option keeps
// its previous value.
func (o *Option) set(c *Config, values []given, origin Origin) Problems {
	var problems Problems
	next := *c
	if o.isList() {
		o.kind.reset(&next)
	}
	for _, v := range values {
		if err := o.setOne(&next, v); err != nil {
			problems = append(problems, Problem{v.origin, c.within() + o.Name, err.Error()})
		}
	}
	if problems != nil {
		c.refused[o.Name] = true
		return problems
	}
	*c = next
	c.origins[o.Name] = origin
	return nil
}

// setOne parses one value into c. The error quotes the value and ends with what is accepted.
func (o *Option) setOne(c *Config, v given) error {
	err := o.kind.set(c, v)
	switch {
	case err == nil:
		return nil
	case v.mapping != nil:
		return fmt.Errorf("the mapping %w; accepted: %s", err, o.Accepts())
	case v.text == "":
		return errors.New("the value is empty; accepted: " + o.Accepts())
	}
	return fmt.Errorf("%q %w; accepted: %s", v.text, err, o.Accepts())
}

// Find returns the option called name, nil if there is none.
func Find(name string) *Option {
	for _, o := range Options {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// namesOf returns the names of the options that keep accepts, in the table's order.
func namesOf(keep func(*Option) bool) []string {
	var names []string
	for _, o := range Options {
		if keep(o) {
			names = append(names, o.Name)
		}
	}
	return names
}
