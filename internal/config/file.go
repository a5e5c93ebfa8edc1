package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/discover"
)

// readFile returns what the YAML file at path says, in the file's order. origin is where the path came from.
func readFile(path string, origin Origin) ([]setting, Problems) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, Problems{{Origin: origin, Option: optionConfig, Text: "cannot read the file: " + err.Error()}}
	}
	return fileSettings(path, content)
}

// fileSettings returns what content, the YAML text of the file called name, says.
func fileSettings(name string, content []byte) ([]setting, Problems) {
	at := func(n *yaml.Node) Origin { return Origin{sourceFile, name + ":" + strconv.Itoa(n.Line)} }

	var document, next yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, Problems{syntaxProblem(name, err)}
	}
	switch err := decoder.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, Problems{syntaxProblem(name, err)}
	default:
		return nil, Problems{{Origin: at(&next), Text: "a second YAML document; accepted: one"}}
	}
	root := resolve(document.Content[0])
	if isNull(root) {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, Problems{{Origin: at(root), Text: "not a mapping; accepted: lines of the form \"option: value\""}}
	}

	var settings []setting
	var problems Problems
	lines := make(map[string]int) // the line on which a key stands
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], resolve(root.Content[i+1])
		origin := at(key)
		o := Find(key.Value)
		switch first := lines[key.Value]; {
		case o == nil || !o.inFile():
			problems = append(problems, Problem{Origin: origin, Text: unknownKey(key.Value)})
			continue
		case first != 0:
			problems = append(problems, Problem{origin, o.Name, fmt.Sprintf("given twice; first on line %d", first)})
			continue
		}
		lines[key.Value] = key.Line
		values, err := o.fromNode(value, at)
		if err != nil {
			problems = append(problems, Problem{origin, o.Name, err.Error()})
			continue
		}
		settings = append(settings, setting{o, values, origin})
	}
	return settings, problems
}

// fromNode returns the values that stand at n.
func (o *Option) fromNode(n *yaml.Node, at func(*yaml.Node) Origin) ([]given, error) {
	_, isServers := o.kind.(servers)
	switch {
	case isNull(n):
		return nil, fmt.Errorf("no value; accepted: %s", o.Accepts())
	case n.Kind == yaml.ScalarNode:
		return o.split(n.Value, at(n)), nil
	case n.Kind == yaml.MappingNode:
		return nil, fmt.Errorf("a mapping where a value belongs (text with braces needs quotes); accepted: %s", o.Accepts())
	case !o.isList():
		return nil, fmt.Errorf("a list where one value belongs; accepted: %s", o.Accepts())
	}
	var values []given
	for _, element := range n.Content {
		e := resolve(element)
		switch {
		case e.Kind == yaml.MappingNode && isServers:
			values = append(values, given{mapping: e, origin: at(e)})
		case e.Kind == yaml.ScalarNode && !isNull(e):
			values = append(values, given{text: e.Value, origin: at(e)})
		default:
			return nil, fmt.Errorf("element %d of the list is not a text; accepted: %s", len(values)+1, o.Accepts())
		}
	}
	return values, nil
}

// serverKeys are the keys of a server in the file.
var serverKeys = []string{"name", "address", "weight"}

// parseServerMapping reads a server that the file gives as {name, address, weight}.
func parseServerMapping(n *yaml.Node) (discover.Spec, error) {
	fields := make(map[string]string)
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, resolve(n.Content[i+1])
		_, twice := fields[key]
		switch {
		case !slices.Contains(serverKeys, key):
			return discover.Spec{}, fmt.Errorf("has the unknown key %q%s", key, didYouMean(key, serverKeys))
		case twice:
			return discover.Spec{}, fmt.Errorf("has the key %q twice", key)
		case value.Kind != yaml.ScalarNode || isNull(value) || value.Value == "":
			return discover.Spec{}, fmt.Errorf("has no text for the key %q", key)
		}
		fields[key] = value.Value
	}
	if fields["address"] == "" {
		return discover.Spec{}, errors.New("has no key \"address\"")
	}
	weight := 1
	if text, ok := fields["weight"]; ok {
		var err error
		if weight, err = parseWeight(text); err != nil {
			return discover.Spec{}, err
		}
	}
	return makeSpec(fields["name"], fields["address"], weight)
}

func unknownKey(key string) string {
	if key == optionConfig {
		return "the key \"config\" cannot stand in the file itself"
	}
	var names []string
	for i := range Options {
		if Options[i].inFile() {
			names = append(names, Options[i].Name)
		}
	}
	if s := suggest(key, names); s != "" {
		return fmt.Sprintf("unknown key %q; did you mean %q?", key, s)
	}
	return fmt.Sprintf("unknown key %q; `mcmw config print` lists all", key)
}

// resolve returns the node that an alias stands for.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// yamlError is the form of the YAML library's syntax errors.
var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)

func syntaxProblem(name string, err error) Problem {
	where, text := name, err.Error()
	if m := yamlError.FindStringSubmatch(text); m != nil {
		if text = m[2]; m[1] != "" {
			where += ":" + m[1]
		}
	}
	return Problem{Origin: Origin{sourceFile, where}, Text: "not YAML: " + text}
}
