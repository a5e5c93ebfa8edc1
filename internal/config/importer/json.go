package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/userinput"
)

// parseJSON returns the object in content as nodes with lines. Like mcrouter, it accepts comments, and a comma after
// the last element. The error is a *userinput.Problem.
func parseJSON(content []byte) (*yaml.Node, error) {
	plain := plainJSON(content)
	p := jsonParser{decoder: json.NewDecoder(bytes.NewReader(plain)), content: plain}
	p.decoder.UseNumber()
	root, err := p.value()
	if err == nil && root.Kind != yaml.MappingNode {
		err = errors.New("not an object; accepted: a configuration of mcrouter")
	}
	if err == nil {
		if _, more := p.decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("text after the object; accepted: one object")
		}
	}
	if err != nil {
		return nil, &userinput.Problem{Line: p.line(), Text: err.Error()}
	}
	return root, nil
}

// plainJSON returns content with comments, and commas before a closing bracket, replaced by spaces. Line numbers stay
// the same.
func plainJSON(content []byte) []byte {
	plain := bytes.Clone(content)
	comma := -1 // the index of the last significant byte if that is a comma
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if plain[i] != '\n' {
				plain[i] = ' '
			}
		}
	}
	for i := 0; i < len(plain); i++ {
		rest := plain[i:]
		switch c := plain[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(plain) && plain[i] != '"'; i++ {
				if plain[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(rest, []byte("//")), bytes.HasPrefix(rest, []byte("/*")):
			end, closing := bytes.IndexByte(rest, '\n'), 0
			if rest[1] == '*' {
				if end, closing = bytes.Index(rest[2:], []byte("*/")), 4; end < 0 {
					return plain // the comment is not closed: the parser reports its slash
				}
			}
			if end < 0 {
				end = len(rest)
			}
			blank(i, i+end+closing)
			i += end + closing - 1
		case c == ',':
			comma = i
		case (c == '}' || c == ']') && comma >= 0:
			plain[comma], comma = ' ', -1
		case !strings.ContainsRune(" \t\r\n", rune(c)):
			comma = -1
		}
	}
	return plain
}

// jsonParser builds nodes from the tokens of a text.
type jsonParser struct {
	decoder *json.Decoder
	content []byte
}

// line returns the line of the last token read.
func (p *jsonParser) line() int {
	return 1 + bytes.Count(p.content[:p.decoder.InputOffset()], []byte("\n"))
}

func (p *jsonParser) token() (json.Token, error) {
	token, err := p.decoder.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("not JSON: the text ends too early")
	case err != nil:
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return token, nil
}

func (p *jsonParser) value() (*yaml.Node, error) {
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: p.line()}
	switch t := token.(type) {
	case json.Delim:
		n.Kind = yaml.MappingNode
		if t == '[' {
			n.Kind = yaml.SequenceNode
		}
		for p.decoder.More() {
			element, err := p.value()
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, element)
		}
		if _, err := p.token(); err != nil {
			return nil, err
		}
	case string:
		n.SetString(t)
	case nil:
		n.Tag = "!!null"
	default: // a number or a boolean
		n.Value = fmt.Sprint(t)
	}
	return n, nil
}
