package experiment

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Set returns a file's text with changed settings; the quick profile is changed, too. A setting is KEY=VALUE, with the
// path of a key, such as factors.system, and a value in YAML. Mappings are merged, other values replaced.
func Set(text []byte, settings []string) ([]byte, error) {
	root, _, _, err := mapping(text)
	if err != nil || root == nil || len(settings) == 0 {
		return text, nil // Parse reports what is wrong with it
	}
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
		change := document.Content[0]
		for _, key := range slices.Backward(keys) {
			change = &yaml.Node{
				Kind:    yaml.MappingNode,
				Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: key}, change},
			}
		}
		root = overlay(root, change)
		if quick := child(root, "quick"); quick != nil && quick.Kind == yaml.MappingNode && keys[0] != "name" &&
			keys[0] != "quick" {
			root = overlay(root, &yaml.Node{
				Kind:    yaml.MappingNode,
				Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "quick"}, overlay(quick, change)},
			})
		}
	}
	return yaml.Marshal(root)
}
