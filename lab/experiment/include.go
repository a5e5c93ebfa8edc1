package experiment

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/userinput"
)

// separator is between the text of an included file and that of the file that includes it.
var separator = []byte("\n---\n")

// Read returns the text of an experiment file: after that of the file that it includes, if any, so that the text is
// complete. read is os.ReadFile.
func Read(path string, read func(path string) ([]byte, error)) ([]byte, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	root, err := userinput.Mapping(text, "")
	if err != nil || root == nil || child(root, "include") == nil {
		return text, nil // Parse reports what is wrong with it
	}
	name := child(root, "include")
	included, err := read(filepath.Join(filepath.Dir(path), name.Value))
	if err != nil {
		return nil, fmt.Errorf("%s:%d: include: %w", path, name.Line, err)
	}
	return bytes.Join([][]byte{bytes.TrimRight(included, "\n"), text}, separator), nil
}

// mapping returns the content of a text that Read has returned: the keys of the file in place of those of the included
// one; mappings are merged. own is the number of lines before the file's own, include the name of the included file.
func mapping(text []byte) (root *yaml.Node, own int, include string, err error) {
	parts := bytes.Split(text, separator)
	last := parts[len(parts)-1]
	if len(parts) > 1 {
		own = bytes.Count(text[:len(text)-len(last)], []byte("\n"))
		if n, err := userinput.Mapping(last, ""); err == nil && n != nil {
			include = value(n, "include")
		}
		if include == "" || len(parts) > 2 {
			return nil, 0, "", &userinput.Problem{Line: own + 1, Text: "a second YAML document; accepted: one"}
		}
	}
	for i, part := range parts {
		if i > 0 { // its lines are counted after those before it
			part = slices.Concat(bytes.Repeat([]byte("\n"), own), part)
		}
		n, err := userinput.Mapping(part, "name: value")
		switch {
		case err != nil:
			return nil, own, include, err
		case n == nil:
			continue
		case i < len(parts)-1 && child(n, "include") != nil:
			return nil, own, include, &userinput.Problem{
				Line: child(n, "include").Line,
				Text: "an included file includes another; accepted: one that includes none",
			}
		}
		if root != nil {
			n = overlay(root, n)
		}
		root = n
	}
	if root != nil && include != "" {
		root = overlay(root, &yaml.Node{}) // a copy
		without(root, "include")
	}
	return root, own, include, nil
}

// overlay returns base with the keys of top added. If both have a key, mappings are merged and other values replaced.
// Keys of top also remove those that they replace (see insteadOf).
func overlay(base, top *yaml.Node) *yaml.Node {
	merged := *base
	merged.Content = slices.Clone(base.Content)
	for i := 0; i < len(top.Content); i += 2 {
		key, value := top.Content[i], userinput.Resolve(top.Content[i+1])
		switch old := child(&merged, key.Value); {
		case old != nil && key.Value == "testbed":
			value = overlayTestbed(old, value)
		case old != nil && old.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			value = overlay(old, value)
		}
		for _, other := range insteadOf[key.Value] {
			without(&merged, other)
		}
		if at := slices.IndexFunc(merged.Content, func(n *yaml.Node) bool { return n.Value == key.Value }); at >= 0 &&
			at%2 == 0 {
			merged.Content[at+1] = value
		} else {
			merged.Content = append(merged.Content, key, value)
		}
	}
	return &merged
}

// overlayTestbed returns a testbed with the settings of top; one of another kind keeps none of its own.
func overlayTestbed(base, top *yaml.Node) *yaml.Node {
	for _, n := range []**yaml.Node{&base, &top} {
		if (*n).Kind == yaml.ScalarNode {
			*n = entry("kind", *n)
		}
	}
	kind := value(top, "kind")
	if base.Kind == yaml.MappingNode && top.Kind == yaml.MappingNode &&
		(kind == "" || kind == cmp.Or(value(base, "kind"), LocalTestbed)) {
		return overlay(base, top)
	}
	return top
}

// without removes a key from a mapping.
func without(m *yaml.Node, key string) {
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			m.Content = slices.Delete(slices.Clone(m.Content), i, i+2)
			return
		}
	}
}

// insteadOf maps a key of the quick profile to the other keys that it replaces.
var insteadOf = map[string][]string{"repetitions": {"stop"}, "stop": {"repetitions"}, "points": {"factors", "fraction"}}

// child returns the value of a key of a mapping; nil if there is none.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return userinput.Resolve(n.Content[i+1])
		}
	}
	return nil
}

// change returns a file's content, unless it is nil, with changed settings; the quick profile is changed, too. A
// setting is KEY=VALUE, with the path of a key, such as factors.system, and a value in YAML. Mappings are merged, other
// values replaced.
func change(root *yaml.Node, settings []string) (*yaml.Node, error) {
	for _, setting := range settings {
		path, value, ok := strings.Cut(setting, "=")
		keys := strings.Split(path, ".")
		var document yaml.Node
		err := yaml.Unmarshal([]byte(value), &document)
		if !ok || err != nil || len(document.Content) != 1 || slices.Contains(keys, "") {
			return nil,
				fmt.Errorf("--set %q: expected KEY=VALUE with a value in YAML, such as repetitions=5 or "+
					"factors.system=[direct, mcmw]", setting)
		}
		if root == nil {
			continue
		}
		top := document.Content[0]
		lineless(top)
		for _, key := range slices.Backward(keys) {
			top = entry(key, top)
		}
		root = overlay(root, top)
		if quick := child(root, "quick"); quick != nil && quick.Kind == yaml.MappingNode && keys[0] != "name" &&
			keys[0] != "quick" {
			root = overlay(root, entry("quick", overlay(quick, top)))
		}
	}
	return root, nil
}

// lineless says of a node and of all below it that they are in no line of the file.
func lineless(n *yaml.Node) {
	n.Line = 0
	for _, c := range n.Content {
		lineless(c)
	}
}

// entry returns a mapping with one key.
func entry(key string, value *yaml.Node) *yaml.Node {
	return &yaml.Node{
		Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: key}, value},
	}
}
