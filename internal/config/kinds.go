package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/enum"
	"mcmw/internal/userinput"
)

// given is one value as a source gave it: a text or, in the YAML file, a mapping such as a server, the pools or a
// route.
type given struct {
	text    string
	mapping *yaml.Node // nil for a text
	origin  Origin
}

// kind is the type of an option: how its value is parsed, checked and formatted.
type kind struct {
	// placeholder is the placeholder of the value in a flag's help; "": there is no flag, only the file can set the
	// option.
	placeholder string
	// accepts says which values are accepted: it follows "accepted:" in messages.
	accepts string
	// set reads v into c. The error says what is wrong with the text, and starts with a verb.
	set func(c *Config, v given) error
	// reset empties a list: set is called once for each of its values, after reset. nil: there is exactly one value.
	reset func(c *Config)
	// get returns the value as it stands in the YAML file: an int, bool, string or []string.
	get func(c *Config) any
	// schema is a JSON schema of the values that set accepts, as far as a schema can express it.
	schema map[string]any

	words       []string // the accepted words, if no others are accepted
	isToggle    bool     // true or false, and true for a flag without a value
	isLoose     bool     // the schema accepts more than set
	textsOnly   bool     // no element of the list can be a mapping
	ranged      bool     // the value has a unit, and is between
	least, most int64    // these: bytes, or nanoseconds
}

// at is the Config whose fields the tables of options name.
var at Config

// fieldAt returns what finds, in any Config, the field that is at to in at.
func fieldAt[T any](to *T) func(*Config) *T {
	path := pathTo(reflect.ValueOf(to), reflect.ValueOf(&at).Elem())
	return func(c *Config) *T { return reflect.ValueOf(c).Elem().FieldByIndex(path).Addr().Interface().(*T) }
}

// pathTo returns the indexes that lead to the field of a struct to which pointer points; nil: it has no such field.
func pathTo(pointer, in reflect.Value) []int {
	for i := range in.NumField() {
		field := in.Field(i)
		if field.Addr().Pointer() == pointer.Pointer() && field.Type() == pointer.Type().Elem() {
			return []int{i}
		}
		if field.Kind() == reflect.Struct {
			if rest := pathTo(pointer, field); rest != nil {
				return append([]int{i}, rest...)
			}
		}
	}
	return nil
}

// one completes k, the kind of an option with one value: parse reads it, and format is the inverse of parse.
func one[T any](to *T, k kind, parse func(text string) (T, error), format func(T) any) kind {
	field := fieldAt(to)
	k.set = func(c *Config, v given) error {
		value, err := parse(v.text)
		if err == nil {
			*field(c) = value
		}
		return err
	}
	k.get = func(c *Config) any { return format(*field(c)) }
	return k
}

// between returns an error if v is below least or above most; small and large say so.
func between[T cmp.Ordered](v, least, most T, small, large string) (T, error) {
	switch {
	case v < least:
		return v, errors.New("is too " + small)
	case v > most:
		return v, errors.New("is too " + large)
	}
	return v, nil
}

// count is a whole number. If word is set, it stands for 0.
func count(to *int, least, most int, word, unit string) kind {
	k := kind{
		placeholder: "N", accepts: strings.TrimSuffix(fmt.Sprintf("%d to %d %s", least, most, unit), " "),
		schema: map[string]any{"type": "integer", "minimum": least, "maximum": most},
	}
	if word != "" {
		k.placeholder = word + "|N"
		k.schema["type"], k.schema["pattern"] = []string{"integer", "string"}, pattern(word)
		if least == 0 {
			k.accepts += fmt.Sprintf("; 0 or %s: chosen at start", word)
		} else {
			k.accepts = word + ", or " + k.accepts
		}
	}
	parse := func(text string) (int, error) {
		if word != "" && text == word {
			return 0, nil
		}
		n, err := wholeNumber(text, "is not a whole number")
		if err != nil {
			return 0, err
		}
		return between(n, least, most, "small", "large")
	}
	return one(to, k, parse, func(n int) any {
		if n == 0 && word != "" {
			return word
		}
		return n
	})
}

// wholeNumber parses a number. otherwise is the error for a text that is none.
func wholeNumber(text, otherwise string) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errors.New("is out of range")
	case err != nil:
		return 0, errors.New(otherwise)
	}
	return n, nil
}

// mode is the mode of a file.
func mode(to *fs.FileMode) kind {
	k := kind{
		placeholder: "MODE", accepts: "0001 to 0777, in octal",
		// Helm reads 0770 as 504, and would pass that on. No number above 511 was a mode in octal.
		schema: map[string]any{
			"type": []string{"integer", "string"}, "minimum": 0o777 + 1, "maximum": 777, "pattern": "^0*[0-7]{1,3}$",
		},
		isLoose: true, // 8 and 9 are no octal digits
	}
	parse := func(text string) (fs.FileMode, error) {
		n, err := strconv.ParseUint(text, 8, 32)
		if err != nil {
			return 0, errors.New("is not an octal number")
		}
		return between(fs.FileMode(n), 1, fs.ModePerm, "small", "large")
	}
	return one(to, k, parse, func(m fs.FileMode) any { return fmt.Sprintf("%04o", m) })
}

// The ends of what a size and a duration accept: the same for all, so the tables of options don't repeat them.
const (
	sizeForm     = "; k, m and g multiply by 1024"
	durationForm = ", with a unit: us, ms, s, m, h"
)

const sizeSuffixes = "kmg" // each 1,024 times the one before

// size is a number of bytes in the form of memcached's -I: 1048576, 1024k, 1m.
func size(to *int, least, most int) kind {
	k := kind{
		placeholder: "SIZE", accepts: fmt.Sprintf("%s to %s bytes", formatSize(least), formatSize(most)) + sizeForm,
		ranged: true, least: int64(least), most: int64(most), schema: map[string]any{
			"type": []string{"integer", "string"}, "minimum": least, "maximum": most,
			"pattern": pattern("[0-9]+[kmgKMG]"),
		},
	}
	parse := func(text string) (int, error) {
		digits, factor := strings.ToLower(text), 1
		if i := len(digits) - 1; i > 0 {
			if power := strings.IndexByte(sizeSuffixes, digits[i]); power >= 0 {
				digits, factor = digits[:i], 1<<(10*(power+1))
			}
		}
		n, err := wholeNumber(digits, "is not a size")
		switch {
		case err != nil:
			return 0, err
		case n > most/factor: // n*factor might overflow
			return 0, errors.New("is too large")
		}
		return between(n*factor, least, most, "small", "large")
	}
	return one(to, k, parse, func(n int) any {
		text := formatSize(n)
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
		return text
	})
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
func duration(to *time.Duration, least, most time.Duration) kind {
	k := kind{
		placeholder: "TIME",
		accepts:     fmt.Sprintf("%s to %s", formatDuration(least), formatDuration(most)) + durationForm,
		ranged:      true, least: int64(least), most: int64(most), schema: durationSchema,
	}
	parse := func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil {
			if _, numErr := strconv.ParseFloat(text, 64); numErr == nil {
				return 0, errors.New("has no unit")
			}
			return 0, errors.New("is not a duration")
		}
		return between(d, least, most, "short", "long")
	}
	return one(to, k, parse, func(d time.Duration) any { return formatDuration(d) })
}

var durationSchema = map[string]any{"type": "string", "pattern": pattern(`([0-9]+(\.[0-9]+)?(us|ms|s|m|h))+`)}

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

// toggleWords are the accepted texts of a toggle, in pairs: true, false.
var toggleWords = []string{"true", "false", "yes", "no", "on", "off", "1", "0"}

// toggle is true or false. A flag without a value means true.
func toggle(to *bool) kind {
	values := []any{true, false}
	for _, word := range toggleWords[:6] {
		values = append(values, word)
	}
	k := kind{
		placeholder: "true|false", accepts: strings.Join(toggleWords, ", "), words: toggleWords[:2], isToggle: true,
		schema: map[string]any{"enum": values},
	}
	parse := func(text string) (bool, error) {
		i := slices.Index(toggleWords, strings.ToLower(text))
		if i < 0 {
			return false, errors.New("is neither true nor false")
		}
		return i%2 == 0, nil
	}
	return one(to, k, parse, func(on bool) any { return on })
}

// widestPlaceholder limits the width of the column of flags in the help, bytes.
const widestPlaceholder = 24

// choice is one of the words that stand for values of T.
func choice[T comparable](to *T, words []string, values []T) kind {
	k := kind{
		placeholder: strings.Join(words, "|"), accepts: strings.Join(words, ", "), words: words,
		schema: map[string]any{"type": "string", "enum": words},
	}
	if len(k.placeholder) > widestPlaceholder {
		k.placeholder = "NAME"
	}
	parse := func(text string) (value T, err error) {
		i := slices.Index(words, text)
		if i < 0 {
			return value, errors.New("is unknown" + userinput.DidYouMean(text, words))
		}
		return values[i], nil
	}
	return one(to, k, parse, func(value T) any { return words[slices.Index(values, value)] })
}

// named is a choice whose words are the names of an enumeration's values.
func named[T ~uint8](names enum.Names[T], to *T) kind {
	values := make([]T, len(names.All()))
	for i := range values {
		values[i] = T(i)
	}
	return choice(to, names.All(), values)
}

// text is any string that check accepts. If off is set, that word and the empty text turn the option off: its value is
// "". form is a regular expression that matches every text that check accepts; "": none is known.
func text(to *string, name, what, off, form string, check func(string) error) kind {
	k := kind{placeholder: name, accepts: what, isLoose: true, schema: map[string]any{"type": "string"}}
	if off != "" {
		k.accepts += ", or " + off
	}
	if form != "" {
		k.schema["pattern"] = pattern(form, off, "")
	}
	parse := func(text string) (string, error) {
		if off != "" && (text == off || text == "") {
			return "", nil
		}
		return text, check(text)
	}
	return one(to, k, parse, func(text string) any { return cmp.Or(text, off) })
}

const filePlaceholder = "FILE"

// file is the path of a file, or none.
func file(to *string) kind {
	return text(to, filePlaceholder, "the path of a file", "none", "", func(string) error { return nil })
}

const fractionOff = "off"

// fraction is one in every N, written 1/N; N is 0 for none.
func fraction(to *int, most int) kind {
	k := kind{
		placeholder: "1/N", accepts: "1/1 to 1/" + strconv.Itoa(most) + ", or " + fractionOff,
		schema: map[string]any{"type": "string", "pattern": pattern("1/[1-9][0-9]*", regexp.QuoteMeta(fractionOff))},
	}
	parse := func(text string) (int, error) {
		if text == fractionOff {
			return 0, nil
		}
		digits, ok := strings.CutPrefix(text, "1/")
		n, err := strconv.Atoi(digits)
		switch {
		case !ok || (err != nil && !errors.Is(err, strconv.ErrRange)):
			return 0, errors.New("is not of the form 1/N")
		case err != nil || n < 1 || n > most:
			return 0, errors.New("is out of range")
		}
		return n, nil
	}
	return one(to, k, parse, func(n int) any {
		if n == 0 {
			return fractionOff
		}
		return "1/" + strconv.Itoa(n)
	})
}

// listSchema is that of addresses and servers.
var listSchema = map[string]any{
	"type": []string{"array", "string"}, "items": map[string]any{"type": []string{"string", "object"}},
}

// addresses is a list of addresses. If off is set, it stands for an empty list.
func addresses(to *[]string, forms, off string, check func(text string) error) kind {
	field := fieldAt(to)
	set := func(c *Config, v given) error {
		if off != "" && v.text == off {
			return nil
		}
		if err := check(v.text); err != nil {
			return err
		}
		if slices.Contains(*field(c), v.text) {
			return errors.New("is given twice")
		}
		*field(c) = append(*field(c), v.text)
		return nil
	}
	return kind{
		placeholder: "ADDRESS,...", accepts: forms, set: set, reset: func(c *Config) { *field(c) = nil },
		get: func(c *Config) any { return *field(c) }, schema: listSchema, textsOnly: true,
	}
}

// servers is the list of memcached servers.
var servers = kind{
	placeholder: "SERVER,...", accepts: serverForms, schema: listSchema,
	reset: func(c *Config) { c.Specs = nil },
	set: func(c *Config, v given) error {
		s, err := parseServer(v.text)
		if v.mapping != nil {
			s, err = parseServerMapping(v.mapping)
		}
		if err == nil {
			c.Specs = append(c.Specs, s)
		}
		return err
	},
	get: func(c *Config) any {
		texts := make([]string, len(c.Specs))
		for i, s := range c.Specs {
			texts[i] = formatServer(s)
		}
		return texts
	},
}

// pattern returns a regular expression that matches texts that match one of the alternatives as a whole.
func pattern(alternatives ...string) string { return "^(" + strings.Join(alternatives, "|") + ")$" }
