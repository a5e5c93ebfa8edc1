// Package importer translates the configuration of another proxy, twemproxy or mcrouter, into one of mcmw.
//
// A difference that only places keys on other servers, and so costs a cold cache, becomes a comment. A setting without
// which a client would get other answers is refused, with its line. A result is a file that package config accepts.
package importer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/config"
	"mcmw/internal/userinput"
)

// Options choose the parts of a file that are translated.
type Options struct {
	// Pool is the name of a pool in twemproxy's file, "" for the only one.
	Pool string
	// LeaveOut are keys of the file to ignore, although mcmw has no equivalent.
	LeaveOut []string
	// Now is the start of a warm-up.
	Now time.Time
}

// Import translates content, the text of the file called name, into a YAML file of mcmw. The error has a line for each
// mistake, with the file, the line, what is wrong and what is accepted.
func Import(name string, content []byte, o Options) ([]byte, error) {
	d := &draft{file: name, leaveOut: o.LeaveOut}
	content = bytes.TrimPrefix(content, []byte("\ufeff")) // a byte order mark
	if isJSON(content) {
		root, err := parseJSON(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if o.Pool != "" {
			return nil, errors.New("--pool is for files of twemproxy; mcrouter chooses its pools by routes")
		}
		importMcrouter(d, root, o.Now)
	} else {
		root, err := userinput.Mapping(content, "pool:")
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case root == nil:
			return nil, fmt.Errorf("%s: empty; accepted: a configuration of twemproxy (YAML) or mcrouter (JSON)", name)
		}
		importTwemproxy(d, root, o.Pool)
	}
	return d.result()
}

// isJSON reports whether content is mcrouter's: only that starts with a brace or a JSON comment.
func isJSON(content []byte) bool {
	start := bytes.TrimSpace(content)
	return bytes.HasPrefix(start, []byte("{")) || bytes.HasPrefix(start, []byte("/"))
}

// draft is a configuration of mcmw while it is being built.
type draft struct {
	// fixed
	file     string
	leaveOut []string

	notes    []string // comments at the top
	settings settings
	problems []userinput.Problem
}

// setting is an option of mcmw with the reason for its value.
type setting struct {
	option string
	value  any // a string, int, bool, []string, settings, or []settings
	why    string
}

// settings are a mapping.
type settings []setting

// entry returns an element of a list, such as a route, with those of the pairs of option and value that have a value.
func entry(pairs ...string) (element settings) {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			element = append(element, setting{option: pair[0], value: pair[1]})
		}
	}
	return element
}

func (d *draft) set(option string, value any, why string, args ...any) {
	d.settings = append(d.settings, setting{option, value, fmt.Sprintf(why, args...)})
}

func (d *draft) note(text string, args ...any) { d.notes = append(d.notes, fmt.Sprintf(text, args...)) }

// refuse adds a problem: something at a node that mcmw can't express. It returns false, as do those that give up then.
func (d *draft) refuse(at *yaml.Node, text string, args ...any) bool {
	d.problems = append(d.problems, userinput.Problem{Line: at.Line, Text: fmt.Sprintf(text, args...)})
	return false
}

// refuseKey refuses a key of the file, unless leaveOut has it.
func (d *draft) refuseKey(key *yaml.Node, why string) {
	if slices.Contains(d.leaveOut, key.Value) {
		d.note("Left out: %s (line %d): %s.", key.Value, key.Line, why)
		return
	}
	d.refuse(key, "%s: %s; remove it, or ignore it with --leave-out %s", key.Value, why, key.Value)
}

// refuseOther is refuseKey for a key that no option is like, or one of alike.
func (d *draft) refuseOther(key *yaml.Node) {
	d.refuseKey(key, cmp.Or(alike[key.Value], "mcmw has no equivalent"))
}

// result returns the file, or all problems as one error.
func (d *draft) result() ([]byte, error) {
	if len(d.problems) > 0 {
		slices.SortStableFunc(d.problems, func(a, b userinput.Problem) int { return a.Line - b.Line })
		lines := make([]string, len(d.problems))
		for i, p := range d.problems {
			lines[i] = fmt.Sprintf("%s:%d: %s", d.file, p.Line, p.Text)
		}
		return nil, errors.New(strings.Join(lines, "\n"))
	}
	content, err := d.write()
	if err != nil {
		return nil, err
	}
	if err := config.CheckText("the result", content); err != nil {
		return nil, fmt.Errorf("%s: mcmw does not accept the translation:\n%w", d.file, err)
	}
	return content, nil
}

// write returns the file: the notes, then each setting with its reason as a comment.
func (d *draft) write() ([]byte, error) {
	root, err := d.settings.mapping()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, note := range d.notes {
		fmt.Fprintf(&b, "# %s\n", oneLine(note))
	}
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// MarshalYAML returns the mapping without the reasons.
func (all settings) MarshalYAML() (any, error) { return all.mapping() }

// mapping returns the settings with their reasons as comments.
func (all settings) mapping() (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range all {
		key, value := &yaml.Node{}, &yaml.Node{}
		key.SetString(s.option)
		var err error
		if inner, ok := s.value.(settings); ok {
			value, err = inner.mapping()
		} else {
			err = value.Encode(s.value)
		}
		if err != nil {
			return nil, err
		}
		commented := value
		if value.Kind != yaml.ScalarNode {
			commented = key
		}
		if s.why != "" {
			commented.LineComment = "# " + oneLine(s.why)
		}
		n.Content = append(n.Content, key, value)
	}
	return n, nil
}

// oneLine returns text as one line, for a comment: names from the file may contain line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// field is a key of a mapping with its value.
type field struct{ key, value *yaml.Node }

// fields returns the keys of the mapping n with their values. It refuses repeated keys, and a node that is not a
// mapping.
func (d *draft) fields(n *yaml.Node) []field {
	if n.Kind != yaml.MappingNode {
		d.refuse(n, "not a mapping; accepted: keys with values")
		return nil
	}
	var all []field
	for i := 0; i < len(n.Content); i += 2 {
		f := field{n.Content[i], userinput.Resolve(n.Content[i+1])}
		if j := slices.IndexFunc(all, func(o field) bool { return o.key.Value == f.key.Value }); j >= 0 {
			d.refuse(f.key, "%q is given twice; first on line %d", f.key.Value, all[j].key.Line)
			continue
		}
		all = append(all, f)
	}
	return all
}

// fieldsOf returns the keys of the mapping that is f's value; none if f is not given.
func (d *draft) fieldsOf(f field) []field {
	if f.key == nil {
		return nil
	}
	return d.fields(f.value)
}

// known returns those of fields that have one of these keys, by key, and refuses the others.
func (d *draft) known(fields []field, keys ...string) map[string]field {
	known := map[string]field{}
	for _, f := range fields {
		if slices.Contains(keys, f.key.Value) {
			known[f.key.Value] = f
		} else {
			d.refuseOther(f.key)
		}
	}
	return known
}

// texts returns the texts of the list n, the value of key.
func (d *draft) texts(key, n *yaml.Node) []string {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.refuse(key, "%s: accepted: a list of texts", key.Value)
		return nil
	}
	var texts []string
	for _, e := range n.Content {
		if e = userinput.Resolve(e); e.Kind != yaml.ScalarNode || e.Value == "" {
			d.refuse(e, "%s: accepted: a list of texts", key.Value)
			return nil
		}
		texts = append(texts, e.Value)
	}
	return texts
}
