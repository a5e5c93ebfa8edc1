package config

import (
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Write writes every option as a YAML file that Load reads back to the same values. With origins, each line ends with
// the origin of its value.
func (c *Config) Write(w io.Writer, origins bool) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, o := range Options {
		if !o.inFile() {
			continue
		}
		key, value := &yaml.Node{}, &yaml.Node{}
		key.SetString(o.Name)
		if err := value.Encode(o.kind.get(c)); err != nil {
			return err
		}
		if origins {
			commented := value
			if value.Kind == yaml.SequenceNode && len(value.Content) > 0 {
				commented = key
			}
			commented.LineComment = "# " + c.Origin(o.Name).String()
		}
		root.Content = append(root.Content, key, value)
	}
	var b strings.Builder
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return err
	}
	if origins && c.File != "" {
		if _, err := io.WriteString(w, "# "+c.File+" ("+c.Origin(optionConfig).String()+")\n"); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
