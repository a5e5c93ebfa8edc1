// Package userinput reads text that people write and reports their mistakes: for YAML with the line of the mistake, and
// for a misspelt name with the name that was probably meant.
package userinput

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Problem is a mistake in a text.
type Problem struct {
	Line int // from 1; 0 if unknown
	Text string
}

// Error returns the problem with its line.
func (p *Problem) Error() string {
	if p.Line == 0 {
		return p.Text
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Text)
}

// Mapping returns the mapping that content consists of; nil if content is empty. If content is not YAML, has more than
// one document or is not a mapping, the error is a *Problem. form shows, in the error, how the lines should look.
func Mapping(content []byte, form string) (*yaml.Node, error) {
	var document, next yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntax(err)
	}
	switch err := decoder.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, syntax(err)
	default:
		return nil, &Problem{next.Line, "a second YAML document; accepted: one"}
	}
	root := Resolve(document.Content[0])
	if IsNull(root) {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, &Problem{root.Line, fmt.Sprintf("not a mapping; accepted: lines of the form %q", form)}
	}
	return root, nil
}

// Resolve returns the node that an alias stands for, and any other node itself.
func Resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// IsNull reports whether n is null.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// yamlError matches the YAML library's syntax errors.
var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)

func syntax(err error) *Problem {
	p := &Problem{Text: err.Error()}
	if m := yamlError.FindStringSubmatch(p.Text); m != nil {
		p.Text = m[2]
		p.Line, _ = strconv.Atoi(m[1]) // without a line it is 0
	}
	p.Text = "not YAML: " + p.Text
	return p
}
