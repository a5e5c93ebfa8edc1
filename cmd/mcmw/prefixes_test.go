package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

func TestAdviseAndTopSayWhichPrefixesUseTheCacheBadly(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte("shop:secret cart: page:\n"), 0o600))
	s := start(t, "serve", "-p", "0", "-m", mctest.StartMemcached(t).Addr(), "--admin", "127.0.0.1:0",
		"--prefixes", ":", "--auth-file", users)
	client := mctest.MustDial(t, awaitEntry(t, s.stderr, "ready").Listen[0])
	admin := awaitEntry(t, s.stderr, "admin server listens").Address
	require.NoError(t, client.Authenticate("shop", "secret"))
	for i := range 20_000 {
		require.Equal(t, "END\r\n", client.MustDo(t, fmt.Sprintf("get cart:%d\r\n", i)))
	}
	require.Contains(t, client.MustDo(t, "get other:1\r\n"), "CLIENT_ERROR this user may use only keys")

	_, text, _ := execute(t, "advise", admin)
	require.Regexp(t, `(?m)^- "cart:": none of [\d,]+ lookups per second hits: `, text)
	_, text, _ = execute(t, "advise", admin, "-o", "json")
	var advice struct{ Prefixes []string }
	require.NoError(t, json.Unmarshal([]byte(text), &advice))
	require.Len(t, advice.Prefixes, 1)
	_, text, _ = execute(t, "top", admin, "-n", "1", "--prefixes")
	require.Contains(t, text, "; most used prefix cart: ")
	s.stop()
	require.Equal(t, exitOK, s.exitCode(t))
}
