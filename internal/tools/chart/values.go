package main

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is one key of values.yaml.
type value struct {
	// Key is the last part of Path; the parts are separated by dots.
	Key, Path string
	// Comment is the text above the key, as one line.
	Comment string
	// Default is the node of the key's default.
	Default *yaml.Node
	// Children are the keys below; nil for a value that is described as a whole.
	Children []*value
}

// parseValues returns the keys of values.yaml. A key with a comment is described as a whole; a key without a comment
// must have children. The error names the keys that have neither.
func parseValues(text []byte) ([]*value, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("is not a mapping")
	}
	return children(document.Content[0], "")
}

func children(mapping *yaml.Node, above string) ([]*value, error) {
	var values []*value
	var problems []error
	for i := 0; i < len(mapping.Content); i += 2 {
		key, node := mapping.Content[i], mapping.Content[i+1]
		v := &value{Key: key.Value, Path: above + key.Value, Comment: comment(key.HeadComment), Default: node}
		if v.Comment == "" {
			if node.Kind != yaml.MappingNode || len(node.Content) == 0 {
				problems = append(problems,
					fmt.Errorf("line %d: %s has no comment; expected one that says what the value is for", key.Line,
						v.Path))
			}
			var err error
			if v.Children, err = children(node, v.Path+"."); err != nil {
				problems = append(problems, err)
			}
		}
		values = append(values, v)
	}
	return values, errors.Join(problems...)
}

// comment returns the last paragraph of a comment as one line. Earlier paragraphs are about the file.
func comment(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	var words []string
	for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
		words = append(words, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")))
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

// leaves returns the described values in the order of the file.
func leaves(values []*value) []*value {
	var all []*value
	for _, v := range values {
		if v.Children == nil {
			all = append(all, v)
		} else {
			all = append(all, leaves(v.Children)...)
		}
	}
	return all
}
