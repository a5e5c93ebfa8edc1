package config

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/userinput"
)

// readFile returns the settings in the YAML file at path, in the file's order. content, unless nil, replaces its
// contents. origin says where the path came from.
func readFile(path string, content []byte, origin Origin) ([]setting, Problems) {
	var err error
	if content == nil {
		content, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, Problems{{Origin: origin, Option: optionConfig, Text: "cannot read the file: " + err.Error()}}
	}
	root, err := userinput.Mapping(content, "option: value")
	if problem, ok := errors.AsType[*userinput.Problem](err); ok {
		where := Origin{sourceFile, path}
		if problem.Line > 0 {
			where = lineOf(path, &yaml.Node{Line: problem.Line})
		}
		return nil, Problems{{Origin: where, Text: problem.Text}}
	}
	if root == nil {
		return nil, nil
	}
	return nodeSettings(root, path, "", func(key string) (*Option, string) {
		switch o := Find(key); {
		case o != nil && o.inFile():
			return o, ""
		case o != nil && o.PoolOnly():
			return nil, fmt.Sprintf("%q is an option of a pool; accepted in the mapping of a pool, under pools", key)
		}
		return nil, unknownKey(key)
	})
}

// lineOf returns the origin of a node in the file at path.
func lineOf(path string, n *yaml.Node) Origin {
	return Origin{sourceFile, path + ":" + strconv.Itoa(n.Line)}
}

// nodeSettings returns the settings in the mapping root of the file at path, in its order. find returns the option that
// a key names, or what is wrong with the key; within is the prefix of options in messages.
func nodeSettings(root *yaml.Node, path, within string, find func(key string) (*Option, string)) ([]setting, Problems) {
	var settings []setting
	var problems Problems
	lines := make(map[string]int) // key -> line
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], userinput.Resolve(root.Content[i+1])
		origin := lineOf(path, key)
		o, wrong := find(key.Value)
		switch first := lines[key.Value]; {
		case o == nil:
			problems = append(problems, Problem{origin, strings.TrimSuffix(within, "."), wrong})
			continue
		case first != 0:
			problems = append(problems, Problem{
				origin, within + o.Name,
				fmt.Sprintf("given twice; first on line %d", first),
			})
			continue
		}
		lines[key.Value] = key.Line
		values, err := o.fromNode(value, path)
		if err != nil {
			problems = append(problems, Problem{origin, within + o.Name, err.Error()})
			continue
		}
		settings = append(settings, setting{o, values, origin})
	}
	return settings, problems
}

// fromNode returns the values at n, in the file at path.
func (o *Option) fromNode(n *yaml.Node, path string) ([]given, error) {
	switch {
	case userinput.IsNull(n):
		return nil, fmt.Errorf("no value; accepted: %s", o.Accepts())
	case n.Kind == yaml.ScalarNode:
		return o.split(n.Value, lineOf(path, n)), nil
	case n.Kind == yaml.MappingNode && o.Name == optionPools:
		return []given{{mapping: n, origin: lineOf(path, n)}}, nil
	case n.Kind == yaml.MappingNode:
		return nil, fmt.Errorf("a mapping where a value belongs (text with braces needs quotes); accepted: %s",
			o.Accepts())
	case !o.isList():
		return nil, fmt.Errorf("a list where one value belongs; accepted: %s", o.Accepts())
	}
	var values []given
	for _, element := range n.Content {
		e := userinput.Resolve(element)
		switch {
		case e.Kind == yaml.MappingNode && !o.kind.textsOnly:
			values = append(values, given{mapping: e, origin: lineOf(path, e)})
		case e.Kind == yaml.ScalarNode && !userinput.IsNull(e):
			values = append(values, given{text: e.Value, origin: lineOf(path, e)})
		default:
			return nil, fmt.Errorf("element %d of the list is not a text; accepted: %s", len(values)+1, o.Accepts())
		}
	}
	return values, nil
}

func unknownKey(key string) string {
	if key == optionConfig {
		return "the key \"config\" is not accepted in the file itself"
	}
	if s := userinput.Suggest(key, namesOf((*Option).inFile)); s != "" {
		return fmt.Sprintf("unknown key %q; did you mean %q?", key, s)
	}
	return fmt.Sprintf("unknown key %q; `mcmw config print` lists all", key)
}
