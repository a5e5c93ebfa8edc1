package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/discover"
	"mcmw/internal/enum"
	"mcmw/internal/userinput"
)

// given is one value as a source gave it: a text or, in the YAML file, a mapping such as a server, the pools or a
// route.
type given struct {
	text    string
	mapping *yaml.Node // nil for a text
	origin  Origin
	at      func(*yaml.Node) Origin // the origin of a node in mapping
}

// kind is the type of an option: how its value is parsed, checked and formatted.
type kind interface {
	// placeholder is the placeholder of the value in a flag's help, "" if there is no flag: only the file can set the
	// option.
	placeholder() string
	// accepts says which values are accepted: it follows "accepted:" in messages.
	accepts() string
	// set reads v into c. The error says what is wrong with the text, and starts with a verb.
	set(c *Config, v given) error
	// get returns the value as it stands in the YAML file: an int, bool, string or []string.
	get(c *Config) any
	// schema returns a JSON schema of the values that set accepts, as far as a schema can express it.
	schema() map[string]any
}

// list is a kind of several values: set is called once for each, after reset. Other kinds take exactly one value.
type list interface {
	kind
	reset(c *Config)
}

// noFlag is embedded in the kinds that only the file can set: lists of mappings, and the mapping of pools.
type noFlag struct{}

func (noFlag) placeholder() string { return "" }

// count is a whole number. If word is set, it stands for 0.
type count struct {
	field    func(*Config) *int
	min, max int
	word     string
	unit     string
}

func (k count) placeholder() string {
	if k.word != "" {
		return k.word + "|N"
	}
	return "N"
}

func (k count) accepts() string {
	text := fmt.Sprintf("%d to %d", k.min, k.max)
	if k.unit != "" {
		text += " " + k.unit
	}
	switch {
	case k.word != "" && k.min == 0:
		return fmt.Sprintf("%s; 0 or %s: chosen at start", text, k.word)
	case k.word != "":
		return k.word + ", or " + text
	}
	return text
}

func (k count) set(c *Config, v given) error {
	if k.word != "" && v.text == k.word {
		*k.field(c) = 0
		return nil
	}
	n, err := strconv.Atoi(v.text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return errors.New("is out of range")
	case err != nil:
		return errors.New("is not a whole number")
	}
	return setBetween(k.field(c), n, k.min, k.max, "is too small", "is too large")
}

// setBetween sets *field to v. It returns an error if v is below least or above most.
func setBetween[T cmp.Ordered](field *T, v, least, most T, below, above string) error {
	switch {
	case v < least:
		return errors.New(below)
	case v > most:
		return errors.New(above)
	}
	*field = v
	return nil
}

func (k count) get(c *Config) any {
	if n := *k.field(c); n != 0 || k.word == "" {
		return n
	}
	return k.word
}

// The ends of what a size and a duration accept: the same for all, so the tables of options don't repeat them.
const (
	sizeForm     = "; k, m and g multiply by 1024"
	durationForm = ", with a unit: us, ms, s, m, h"
)

// size is a number of bytes in the form of memcached's -I: 1048576, 1024k, 1m.
type size struct {
	field    func(*Config) *int
	min, max int
}

const sizeSuffixes = "kmg" // each 1,024 times the one before

func (k size) placeholder() string { return "SIZE" }

func (k size) accepts() string {
	return fmt.Sprintf("%s to %s bytes", formatSize(k.min), formatSize(k.max)) + sizeForm
}

func (k size) set(c *Config, v given) error {
	digits, factor := strings.ToLower(v.text), 1
	if i := len(digits) - 1; i > 0 {
		if power := strings.IndexByte(sizeSuffixes, digits[i]); power >= 0 {
			digits, factor = digits[:i], 1<<(10*(power+1))
		}
	}
	n, err := strconv.Atoi(digits)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return errors.New("is out of range")
	case err != nil:
		return errors.New("is not a size")
	case n > k.max/factor: // n*factor might overflow
		return errors.New("is too large")
	}
	return setBetween(k.field(c), n*factor, k.min, k.max, "is too small", "is too large")
}

func (k size) get(c *Config) any {
	text := formatSize(*k.field(c))
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return text
}

// formatSize formats n with the largest suffix that is exact.
func formatSize(n int) string {
	for power := len(sizeSuffixes); power > 0; power-- {
		if unit := 1 << (10 * power); n != 0 && n%unit == 0 {
			return strconv.Itoa(n/unit) + sizeSuffixes[power-1:power]
		}
	}
	return strconv.Itoa(n)
}

// duration is a time with its unit, as time.ParseDuration reads it.
type duration struct {
	field    func(*Config) *time.Duration
	min, max time.Duration
}

func (k duration) placeholder() string { return "TIME" }

func (k duration) accepts() string {
	return fmt.Sprintf("%s to %s", formatDuration(k.min), formatDuration(k.max)) + durationForm
}

func (k duration) set(c *Config, v given) error {
	d, err := time.ParseDuration(v.text)
	if err != nil {
		if _, numErr := strconv.ParseFloat(v.text, 64); numErr == nil {
			return errors.New("has no unit")
		}
		return errors.New("is not a duration")
	}
	return setBetween(k.field(c), d, k.min, k.max, "is too short", "is too long")
}

func (k duration) get(c *Config) any { return formatDuration(*k.field(c)) }

// formatDuration formats d without the zero units at the end of Duration.String: 1h, not 1h0m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}

// toggle is true or false. A flag without a value means true.
type toggle struct {
	field func(*Config) *bool
}

// toggleWords are the accepted texts, in pairs: true, false.
var toggleWords = []string{"true", "false", "yes", "no", "on", "off", "1", "0"}

func (k toggle) placeholder() string { return "true|false" }
func (k toggle) accepts() string     { return strings.Join(toggleWords, ", ") }

func (k toggle) set(c *Config, v given) error {
	i := slices.Index(toggleWords, strings.ToLower(v.text))
	if i < 0 {
		return errors.New("is neither true nor false")
	}
	*k.field(c) = i%2 == 0
	return nil
}

func (k toggle) get(c *Config) any { return *k.field(c) }

// widestPlaceholder limits the width of the column of flags in the help, bytes.
const widestPlaceholder = 24

// choice is one word of a closed list.
type choice struct {
	words  []string
	choose func(c *Config, word string)
	chosen func(c *Config) string
}

// named is a choice whose words are the names of an enumeration's values.
func named[T ~uint8](names enum.Names[T], field func(*Config) *T) choice {
	return choice{
		words:  names.All(),
		choose: func(c *Config, word string) { *field(c), _ = names.Parse(word) },
		chosen: func(c *Config) string { return names.Of(*field(c)) },
	}
}

// either is the choice of one of two words for a bool.
func either(no, yes string, field func(*Config) *bool) choice {
	return choice{
		words:  []string{no, yes},
		choose: func(c *Config, word string) { *field(c) = word == yes },
		chosen: func(c *Config) string { return map[bool]string{false: no, true: yes}[*field(c)] },
	}
}

func (k choice) placeholder() string {
	if all := strings.Join(k.words, "|"); len(all) <= widestPlaceholder {
		return all
	}
	return "NAME"
}

func (k choice) accepts() string { return strings.Join(k.words, ", ") }

func (k choice) set(c *Config, v given) error {
	if !slices.Contains(k.words, v.text) {
		return errors.New("is unknown" + userinput.DidYouMean(v.text, k.words))
	}
	k.choose(c, v.text)
	return nil
}

func (k choice) get(c *Config) any { return k.chosen(c) }

// text is any string that check accepts. If off is set, that word and the empty text turn the option off: its value is
// "".
type text struct {
	field func(*Config) *string
	name  string
	what  string // what is accepted
	off   string
	form  string // a regular expression that matches every text that check accepts; "": none is known
	check func(string) error
}

func (k text) placeholder() string { return k.name }

func (k text) accepts() string {
	if k.off != "" {
		return k.what + ", or " + k.off
	}
	return k.what
}

func (k text) set(c *Config, v given) error {
	if k.off != "" && (v.text == k.off || v.text == "") {
		*k.field(c) = ""
		return nil
	}
	if err := k.check(v.text); err != nil {
		return err
	}
	*k.field(c) = v.text
	return nil
}

func (k text) get(c *Config) any {
	if s := *k.field(c); s != "" || k.off == "" {
		return s
	}
	return k.off
}

const filePlaceholder = "FILE"

// file is the path of a file, or none.
func file(field func(*Config) *string) text {
	return text{
		field: field, name: filePlaceholder, what: "the path of a file", off: "none",
		check: func(string) error { return nil },
	}
}

// addresses is a list of addresses. If off is set, it stands for an empty list.
type addresses struct {
	field func(*Config) *[]string
	forms string
	off   string
	check func(text string) error
}

func (k addresses) placeholder() string { return "ADDRESS,..." }
func (k addresses) accepts() string     { return k.forms }

func (k addresses) reset(c *Config)   { *k.field(c) = nil }
func (k addresses) get(c *Config) any { return *k.field(c) }

func (k addresses) set(c *Config, v given) error {
	if k.off != "" && v.text == k.off {
		return nil
	}
	if err := k.check(v.text); err != nil {
		return err
	}
	if slices.Contains(*k.field(c), v.text) {
		return errors.New("is given twice")
	}
	*k.field(c) = append(*k.field(c), v.text)
	return nil
}

// servers is the list of memcached servers.
type servers struct{}

func (servers) placeholder() string { return "SERVER,..." }
func (servers) accepts() string     { return serverForms }
func (servers) reset(c *Config)     { c.Specs = nil }

func (servers) set(c *Config, v given) error {
	parse := func() (discover.Spec, error) { return parseServer(v.text) }
	if v.mapping != nil {
		parse = func() (discover.Spec, error) { return parseServerMapping(v.mapping) }
	}
	s, err := parse()
	if err != nil {
		return err
	}
	c.Specs = append(c.Specs, s)
	return nil
}

func (servers) get(c *Config) any {
	texts := make([]string, len(c.Specs))
	for i, s := range c.Specs {
		texts[i] = formatServer(s)
	}
	return texts
}
