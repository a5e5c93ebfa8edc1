package netstage_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/hotkeys"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
)

const foreign = "CLIENT_ERROR this user may use only keys that begin with its prefixes\r\n"

// startBound returns a middleware in front of server with the user anna, who may use all keys, and the user bert, who
// is bound to two prefixes.
func startBound(t *testing.T, server *mctest.Server, o middleware.Options) *mwtest.MW {
	t.Helper()
	o.Servers = mwtest.Servers(server)
	o.Security.AuthFile = passwords(t, "anna:secret\nbert:pass:word session: cart,\n")
	return mwtest.Start(t, o)
}

func TestABoundUserIsRefusedWhateverNamesAnotherKey(t *testing.T) {
	server := mctest.StartMemcached(t)
	var log mctest.Output
	m := startBound(t, server, middleware.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	anna, bert := mctest.MustDial(t, m.Addr()), mctest.MustDial(t, m.Addr())
	require.NoError(t, anna.Authenticate("anna", "secret"))
	require.NoError(t, bert.Authenticate("bert", "pass:word"))
	require.Equal(t, "STORED\r\n", anna.MustDo(t, "set other 7 0 1\r\n5\r\n"))
	before := server.Stat("cmd_touch")

	refused := []string{
		"get other\r\n", "gets other\r\n", "get session:1 other\r\n", "get other session:1 cart,1\r\n",
		"gat 1 other\r\n", "gats 1 session:1 other\r\n", "get other " + strings.Repeat("x", 251) + "\r\n",
		"set other 0 0 1\r\n6\r\n", "set sessio 0 0 1\r\n6\r\n", "set cart:1 0 0 1\r\n6\r\n", "add new 0 0 1\r\n6\r\n",
		"replace other 0 0 1\r\n6\r\n", "append other 0 0 1\r\n6\r\n", "prepend other 0 0 1\r\n6\r\n",
		"cas other 0 0 1 1\r\n6\r\n", "set other 0 0 2000000\r\n" + strings.Repeat("x", 2000000) + "\r\n",
		"delete other\r\n", "incr other 1\r\n", "decr other 1\r\n", "touch other 1\r\n",
		"mg other v\r\n", "mg other T1 q\r\n", "ms other 1\r\n6\r\n", "md other\r\n", "md other q\r\n", "ma other\r\n",
		"me other\r\n", "mg b3RoZXI= b v\r\n", "md b3RoZXI= b\r\n",
		"flush_all\r\n", "flush_all 5\r\n", "stats\r\n", "stats items\r\n", "stats reset\r\n", "verbosity 1\r\n",
		"cache_memlimit 64\r\n", "lru_crawler crawl all\r\n",
	}
	for _, text := range refused {
		assert.Equal(t, foreign, bert.MustDo(t, text), "%.60q", text)
	}
	counted := int(m.Stats().Snapshot().ForeignKeys)
	assert.Equal(t, len(refused), counted)
	// Whoever wants no reply gets none, and the requests around a refused one are served.
	assert.Equal(t, "MN\r\n", bert.MustDo(t, "set other 0 0 1 noreply\r\n6\r\ndelete other noreply\r\n"+
		"flush_all noreply\r\nmn\r\n"))
	assert.Equal(t, "STORED\r\n"+foreign+"VALUE session:1 0 1\r\na\r\nEND\r\n", strings.TrimPrefix(
		answers(t, m.Addr(), login("bert pass:word")+"set session:1 0 0 1\r\na\r\nget other\r\nget session:1\r\n"),
		"STORED\r\n"))
	assert.Equal(t, "VALUE other 7 1\r\n5\r\nEND\r\n", anna.MustDo(t, "get other\r\n"))
	assert.Equal(t, before, server.Stat("cmd_touch"))
	assert.Zero(t, server.Stat("cmd_flush"))
	assert.EqualValues(t, counted+4, m.Stats().Snapshot().ForeignKeys)
	assert.Equal(t, 1, strings.Count(log.String(), "its user is bound to other prefixes"), log.String())
	assert.Contains(t, log.String(), "user=bert")
}

func TestABoundUserIsServedWithItsOwnKeys(t *testing.T) {
	m := startBound(t, mctest.StartMemcached(t), middleware.Options{HotKeys: hotkeys.Serve})
	bert := mctest.MustDial(t, m.Addr())
	require.NoError(t, bert.Authenticate("bert", "pass:word"))
	for _, x := range []struct{ text, want string }{
		{"set session:1 0 0 1\r\n1\r\n", "STORED\r\n"},
		{"ms cart,1 1\r\n2\r\n", "HD\r\n"},
		{"get session:1 cart,1\r\n", "VALUE session:1 0 1\r\n1\r\nVALUE cart,1 0 1\r\n2\r\nEND\r\n"},
		{"gat 0 session:1\r\n", "VALUE session:1 0 1\r\n1\r\nEND\r\n"},
		{"incr session:1 1\r\n", "2\r\n"},
		{"mg c2Vzc2lvbjox b v\r\n", "VA 1\r\n2\r\n"},
		{"delete cart,1\r\n", "DELETED\r\n"},
		{"mn\r\n", "MN\r\n"},
		{"nonsense\r\n", "ERROR\r\n"},
	} {
		assert.Equal(t, x.want, bert.MustDo(t, x.text), "%q", x.text)
	}
	assert.Contains(t, bert.MustDo(t, "version\r\n"), "VERSION ")
	assert.Contains(t, answers(t, m.Addr(), login("bert pass:word")+"config get cluster\r\n"), "CONFIG cluster ")
	for range 200 { // the reader answers some of them
		require.Equal(t, foreign, bert.MustDo(t, "get other\r\n"))
		require.Equal(t, "VALUE session:1 0 1\r\n2\r\nEND\r\n", bert.MustDo(t, "get session:1\r\n"))
	}
}
