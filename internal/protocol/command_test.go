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
		"get a b": Reads, "gets a": Reads | First, "gat 0 a": Reads | Writes | First, "gats 0 a": Reads | Writes | First,
		"set a 0 0 0": Writes | Makes, "add a 0 0 0": Writes | Makes | Depends, "replace a 0 0 0": Writes | Makes | Depends,
		"append a 0 0 0": Writes | Makes | Depends | Builds, "prepend a 0 0 0": Writes | Makes | Depends | Builds,
		"cas a 0 0 0 7": Writes | Makes | Depends | Conditional, "delete a": Writes | Deletes,
		"incr a 1": Writes | Makes | Depends | Builds, "decr a 1": Writes | Makes | Depends | Builds, "touch a 0": Writes,
		"flush_all": Writes | Everywhere, "verbosity 1": Everywhere, "version": 0, "stats": Local, "stats items": Everywhere,
		"slabs automove 1": Fenced, "quit": Closes | Local, "nonsense": 0, "mn": 0,
		"mg a": Reads, "mg a v c": Reads | First, "mg a T0": Writes, "mg a N0 c": Writes | Makes | Depends | First, "mg a R30": Writes | Depends,
		"mg a q": Reads | Quiet | Fenced, "mg a C7": Reads, "mg a T0 C7": Writes | Depends | Conditional, "me a": Reads | First,
		"me YQ== b": Reads | First | Encoded,
		"ms a 0":    Writes | Makes, "ms a 0 MS": Writes | Makes, "ms a 0 ME": Writes | Makes | Depends, "ms a 0 MA": Writes | Makes | Depends | Builds,
		"ms a 0 C7": Writes | Makes | Depends | Conditional, "ms a 0 C7 I": Writes | Makes | Depends | Conditional | Marks,
		"ms a 0 E7": Writes | Makes | Stamped, "ms YQ== 0 b q": Writes | Makes | Encoded | Quiet | Fenced,
		"md a": Writes | Deletes, "md a I T9": Writes | Makes | Depends | Marks, "md a x": Writes | Makes | Depends | Deletes,
		"md a C7": Writes | Deletes | Depends | Conditional, "ma a N0 C7": Writes | Makes | Depends | Builds | Conditional,
		// What is refused does nothing.
		"get": 0, "md a I I": 0, "incr a x": 0,
	} {
		var r Request
		_, _, err := limits().Decode([]byte(line+CRLF+CRLF), &r)
		require.NoError(t, err, line)
		assert.Equal(t, want, r.Traits, line)
	}
}

func TestAKeyInBase64IsDecodedAndOthersAreShownAsTheyAre(t *testing.T) {
	for line, want := range map[string]string{"get a b": "a", "set a 0 0 0": "a", "mg aGUgbG8= b": "he lo", "mg aGUgbG8=": "aGUgbG8=", "stats items": ""} {
		var r Request
		_, _, err := limits().Decode([]byte(line+CRLF+CRLF), &r)
		require.NoError(t, err, line)
		assert.Equal(t, want, string(r.Key(nil)), line)
		assert.Equal(t, "room"+want, "room"+strings.TrimPrefix(string(r.Key([]byte("room"))), "room"), line)
	}
}

func TestAnElementStandsWhereItsCommandIsAnsweredWithItAndNowhereElse(t *testing.T) {
	type verdict struct{ last, ok bool }
	var (
		no   = verdict{}
		more = verdict{false, true}
		end  = verdict{true, true}
	)
	for _, tc := range []struct {
		command       Command
		kind          ReplyKind
		first, fenced bool
		want          verdict
	}{
		{Get, ReplyValue, true, false, more},
		{Get, ReplyEnd, false, false, end},
		{Gats, ReplyServerError, false, false, end},
		{Get, ReplyStored, true, false, no},
		{Set, ReplyStored, true, false, end},
		{Set, ReplyEnd, true, false, no},
		{Incr, ReplyNumber, true, false, end},
		{Stats, ReplyStat, true, false, more},
		{Stats, ReplyReset, true, false, end},
		{Stats, ReplyReset, false, false, no},
		{Meta, ReplyMetaValue, true, false, end},
		{Meta, ReplyMetaNoop, true, false, no},
		{Meta, ReplyMetaLine, true, true, more},
		{Meta, ReplyClientError, true, true, more},
		{Meta, ReplyMetaLine, false, true, no},
		{Meta, ReplyMetaNoop, false, true, end},
		{Admin, ReplyText, true, true, more},
		{Admin, ReplyError, false, true, more},
		{Admin, ReplyValue, true, true, no},
		{Admin, ReplyMetaNoop, false, true, end},
		{Invalid, ReplyText, true, false, no},
	} {
		last, ok := tc.command.Accepts(tc.kind, tc.first, tc.fenced)
		assert.Equal(t, tc.want.ok, ok, "%+v", tc)
		assert.Equal(t, tc.want.last, last && ok, "%+v", tc)
	}
}

// Statistics are counted by command, and may.
func TestNoOtherPackageTellsCommandsApartByName(t *testing.T) {
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
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "../stats/") {
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
