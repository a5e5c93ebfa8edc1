package protocol

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARequestHasTheTraitsOfItsCommandAndFlags(t *testing.T) {
	for line, want := range map[string]Traits{
		"get a b": Reads, "gets a": Reads | First, "gat 0 a": Reads | Writes | First,
		"gats 0 a":    Reads | Writes | First,
		"set a 0 0 0": Writes | Makes, "add a 0 0 0": Writes | Makes | Depends,
		"replace a 0 0 0": Writes | Makes | Depends,
		"append a 0 0 0":  Writes | Makes | Depends | Builds, "prepend a 0 0 0": Writes | Makes | Depends | Builds,
		"cas a 0 0 0 7": Writes | Makes | Depends | Conditional, "delete a": Writes | Deletes,
		"incr a 1": Writes | Makes | Depends | Builds, "decr a 1": Writes | Makes | Depends | Builds,
		"touch a 0": Writes,
		"flush_all": Writes | Everywhere, "verbosity 1": Everywhere, "version": 0, "stats": Everywhere,
		"stats items":      Everywhere,
		"slabs automove 1": Fenced, "quit": Closes | Local, "nonsense": 0, "mn": 0,
		"mg a": Reads, "mg a v c": Reads | First, "mg a T0": Writes, "mg a N0 c": Writes | Makes | Depends | First,
		"mg a R30": Writes | Depends,
		"mg a q":   Reads | Quiet | Fenced, "mg a C7": Reads, "mg a T0 C7": Writes | Depends | Conditional,
		"me a":      Reads | First,
		"me YQ== b": Reads | First | Encoded,
		"ms a 0":    Writes | Makes, "ms a 0 MS": Writes | Makes, "ms a 0 ME": Writes | Makes | Depends,
		"ms a 0 MA":   Writes | Makes | Depends | Builds,
		"ms a 0 C7":   Writes | Makes | Depends | Conditional,
		"ms a 0 C7 I": Writes | Makes | Depends | Conditional | Marks,
		"ms a 0 E7":   Writes | Makes | Stamped, "ms YQ== 0 b q": Writes | Makes | Encoded | Quiet | Fenced,
		"md a": Writes | Deletes, "md a I T9": Writes | Makes | Depends | Marks,
		"md a x":     Writes | Makes | Depends | Deletes,
		"md a C7":    Writes | Deletes | Depends | Conditional,
		"ma a N0 C7": Writes | Makes | Depends | Builds | Conditional,
		// A refused request does nothing.
		"get": 0, "md a I I": 0, "incr a x": 0,
	} {
		var r Request
		_, _, err := limits().Decode([]byte(line+CRLF+CRLF), &r)
		require.NoError(t, err, line)
		assert.Equal(t, want, r.Traits, line)
	}
}

// This is the table of docs/routes.md. Requests with a key that are not in it are routed as writes.
func TestARequestIsAReadIfItChangesNothingAndShowsNoCas(t *testing.T) {
	lines := map[bool][]string{
		true: {"get a", "get a b", "mg a", "mg a v", "mg a k s t f h l v q O1", "mg YQ== b v", "mg a C7 v"},
		false: {
			"gets a", "gat 0 a", "gats 0 a", "set a 0 0 0", "add a 0 0 0", "replace a 0 0 0", "append a 0 0 0",
			"prepend a 0 0 0", "cas a 0 0 0 7", "delete a", "incr a 1", "decr a 1",
			"touch a 0", "mg a v c", "mg a v T9", "mg a v N9", "mg a v R9", "me a", "me YQ== b", "ms a 0", "ms a 0 ME",
			"ms a 0 MR", "ms a 0 MA", "ms a 0 MP", "ms a 0 C7", "ms a 0 C7 I", "md a", "md a q",
			"md a I T9", "md a x", "md a C7", "ma a", "ma a N0 J5 MD", "set a 0 0 0 noreply",
		},
	}
	seen := map[Command]bool{}
	verbs := map[byte]bool{}
	for read, lines := range lines {
		for _, line := range lines {
			var r Request
			_, _, err := limits().Decode([]byte(line+CRLF+CRLF), &r)
			require.NoError(t, err, line)
			require.Positive(t, r.NumKeys, line)
			require.Equal(t, read, r.IsRead(), line)
			seen[r.Command] = true
			if r.Command == Meta {
				verbs[r.Verb] = true
			}
		}
	}
	for c := range NumCommands {
		require.Equal(t, c.hasKey(), seen[c], c.String())
	}
	for verb := range metaVerbs {
		require.Equal(t, metaVerbs[verb] != 0, verbs[byte(verb)], "m%c", verb)
	}
	for flag, f := range metaFlags { // every flag that an mg may have
		if r := metaVerbs['g']&^f.ends | f.adds; r.Has(Writes) || r.Has(First) {
			require.False(t, r.IsRead(), "mg with %c", flag)
		}
	}
}

func TestAKeyInBase64IsDecodedAndOthersAreReturnedUnchanged(t *testing.T) {
	for line, want := range map[string]string{
		"get a b": "a", "set a 0 0 0": "a", "mg aGUgbG8= b": "he lo",
		"mg aGUgbG8=": "aGUgbG8=", "stats items": "",
	} {
		var r Request
		_, _, err := limits().Decode([]byte(line+CRLF+CRLF), &r)
		require.NoError(t, err, line)
		assert.Equal(t, want, string(r.Key(nil)), line)
		assert.Equal(t, "room"+want, "room"+strings.TrimPrefix(string(r.Key([]byte("room"))), "room"), line)
	}
}

// Package stats, which counts by command, is exempt.
func TestNoOtherPackageDistinguishesCommandsByName(t *testing.T) {
	var names []string
	files := token.NewFileSet()
	own, err := parser.ParseFile(files, "command.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(own, func(n ast.Node) bool {
		if block, ok := n.(*ast.GenDecl); ok && block.Tok == token.CONST && len(names) == 0 {
			for _, spec := range block.Specs {
				names = append(names, spec.(*ast.ValueSpec).Names[0].Name)
			}
		}
		return true
	})
	require.Contains(t, names, "Get")
	require.Contains(t, names, "Admin")
	isCommand := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok || !slices.Contains(names, s.Sel.Name) {
			return false
		}
		pkg, ok := s.X.(*ast.Ident)
		return ok && pkg.Name == "protocol"
	}
	checked := 0
	for _, root := range []string{"..", "../../cmd"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.HasPrefix(path, "../stats/") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, 0)
			require.NoError(t, err)
			checked++
			ast.Inspect(file, func(n ast.Node) bool {
				var told []ast.Expr
				switch n := n.(type) {
				case *ast.CaseClause:
					told = n.List
				case *ast.BinaryExpr:
					told = []ast.Expr{n.X, n.Y}
				}
				for _, e := range told {
					assert.False(t, isCommand(e), "%s: ask the request's traits", files.Position(e.Pos()))
				}
				return true
			})
			return nil
		}))
	}
	require.Greater(t, checked, 100)
}
