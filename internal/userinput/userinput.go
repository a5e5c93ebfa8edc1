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
	"strings"

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

// leastPart is the minimum length, in bytes, of a part of a name that Suggest takes to mean the name.
const leastPart = 4

// Suggest returns the candidate that given most likely means: one of which it is a typo, or one that contains it; "" if
// there is none.
func Suggest(given string, candidates []string) string {
	if c := Nearest(given, candidates); c != "" {
		return c
	}
	given = plain(given)
	for _, c := range candidates {
		if len(given) >= leastPart && strings.Contains(plain(c), given) {
			return c
		}
	}
	return ""
}

// Nearest returns the candidate of which given is most likely a typo, with at most one edit per three letters; "" if
// there is none.
func Nearest(given string, candidates []string) string {
	given = plain(given)
	best, least := "", len(given)/3+1
	for _, c := range candidates {
		if d := distance(given, plain(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// DidYouMean returns Suggest's result as a question at the end of a sentence; "" if there is none.
func DidYouMean(given string, candidates []string) string {
	if s := Suggest(given, candidates); s != "" {
		return "; did you mean " + s + "?"
	}
	return ""
}

// plain maps different spellings of a name to the same one: max_value, maxValue, MAX-VALUE.
func plain(name string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
}

// distance returns the minimum number of edits that turn a into b. An edit inserts, deletes or replaces a byte, or
// swaps two neighbouring bytes.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
