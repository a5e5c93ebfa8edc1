package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/userinput"
)

// field is a key of a mapping in the file, with its value as kind.get returns it.
type field struct {
	key   string
	value any
}

// fields are a mapping in the file.
type fields []field

// set returns the fields whose values are not zero.
func (fs fields) set() fields {
	return slices.DeleteFunc(fs, func(f field) bool { return reflect.ValueOf(f.value).IsZero() })
}

// MarshalYAML returns the mapping as the file has it.
func (fs fields) MarshalYAML() (any, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range fs {
		if _, _, err := appendField(n, f.key, f.value); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// appendField appends a key with its value to the mapping n, and returns their nodes.
func appendField(n *yaml.Node, name string, of any) (key, value *yaml.Node, err error) {
	key, value = &yaml.Node{}, &yaml.Node{}
	key.SetString(name)
	n.Content = append(n.Content, key, value)
	return key, value, value.Encode(of)
}

// String returns the mapping as messages about a change show it.
func (fs fields) String() string {
	var texts []string
	for _, f := range fs {
		text := valueText(f.value)
		if _, inner := f.value.(fields); inner {
			text = "(" + text + ")"
		}
		texts = append(texts, f.key+" "+text)
	}
	return strings.Join(texts, ", ")
}

// flow is a list that the file has on one line.
type flow []string

// MarshalYAML returns the list as the file has it.
func (f flow) MarshalYAML() (any, error) {
	n := &yaml.Node{}
	err := n.Encode([]string(f))
	n.Style = yaml.FlowStyle
	return n, err
}

// entry is an element of an option that is a list of mappings: as the file has it, and as messages about a change show
// it.
type entry struct {
	fields
	text string
}

// entries is the value of such an option.
type entries []entry

// String returns the list as messages about a change show it.
func (es entries) String() string {
	texts := make([]string, len(es))
	for i, e := range es {
		texts[i] = e.text
	}
	return strings.Join(texts, ", ")
}

// property is a key that a mapping may have.
type property struct {
	key    string
	schema map[string]any // of its value
	isList bool           // the value may be a list of names, which is read as their text separated by commas
}

// list describes an option that is a list of mappings.
type list struct {
	what       string // what another element is not
	accepts    string
	properties []property
	required   []string       // properties
	more       map[string]any // in the schema of an entry
	reset      func(c *Config)
	add        func(c *Config, texts map[string]string, origin Origin) error // adds an entry with these properties
	get        func(c *Config) entries
}

// kind returns the kind of the option.
func (l list) kind() kind {
	properties := make(map[string]any)
	for _, p := range l.properties {
		properties[p.key] = p.schema
	}
	items := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if l.required != nil {
		items["required"] = l.required
	}
	maps.Copy(items, l.more)
	return kind{
		accepts: l.accepts, reset: l.reset, get: func(c *Config) any { return l.get(c) },
		schema: map[string]any{"type": "array", "items": items},
		set: func(c *Config, v given) error {
			if v.mapping == nil {
				return errors.New("is not " + l.what)
			}
			texts, err := readTexts(v.mapping, l.properties)
			if err != nil {
				return err
			}
			for _, key := range l.required {
				if texts[key] == "" {
					return fmt.Errorf("has no key %q", key)
				}
			}
			return l.add(c, texts, v.origin)
		},
	}
}

// readTexts returns the texts of a mapping that may have only these properties.
func readTexts(n *yaml.Node, properties []property) (map[string]string, error) {
	texts := make(map[string]string)
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, userinput.Resolve(n.Content[i+1])
		at := slices.IndexFunc(properties, func(p property) bool { return p.key == key })
		_, twice := texts[key]
		switch {
		case at < 0:
			var keys []string
			for _, p := range properties {
				keys = append(keys, p.key)
			}
			return nil, fmt.Errorf("has the unknown key %q%s", key, userinput.DidYouMean(key, keys))
		case twice:
			return nil, fmt.Errorf("has the key %q twice", key)
		case properties[at].isList:
			names, err := readNames(key, value)
			if err != nil {
				return nil, err
			}
			texts[key] = names
		case value.Kind != yaml.ScalarNode || userinput.IsNull(value) || value.Value == "":
			return nil, fmt.Errorf("has no text for the key %q", key)
		default:
			texts[key] = value.Value
		}
	}
	return texts, nil
}

// readNames returns the names in n, a list or one name, separated by commas.
func readNames(key string, n *yaml.Node) (string, error) {
	all := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		all = n.Content
	}
	var names []string
	for _, name := range all {
		name = userinput.Resolve(name)
		if name.Kind != yaml.ScalarNode || userinput.IsNull(name) || name.Value == "" ||
			strings.Contains(name.Value, ",") {
			return "", fmt.Errorf("has a %s that is not a list of names of servers", key)
		}
		names = append(names, name.Value)
	}
	if names == nil {
		return "", fmt.Errorf("has a %s without a server", key)
	}
	return strings.Join(names, ","), nil
}

// The schemas of texts in entries.
var (
	textSchema  = map[string]any{"type": "string", "minLength": 1}
	labelSchema = map[string]any{"type": "string", "pattern": pattern(labelForm)}
)

// words is the schema of one of these words.
func words(of ...string) map[string]any { return map[string]any{"enum": of} }
