package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recipeProgram prints the metrics of a middleware after a count, the configuration's options with their
// defaults, what servers get for a new command, the kinds of routes, and what a pool's policy answers.
const recipeProgram = `package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"mcmw/internal/admin"
	"mcmw/internal/config"
	"mcmw/internal/middleware"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

func main() {
	m, err := middleware.New(middleware.Options{Listen: []string{"127.0.0.1:0"}, Servers: []route.Server{{Name: "a", Addr: "127.0.0.1:11211"}}})
	if err != nil {
		panic(err)
	}
	m.Stats().Worker(0).Add(func(c *stats.Counts) { c.Refused[stats.ReasonDown] += 7 })
	server, err := admin.Listen("127.0.0.1:0", "", slog.Default())
	if err != nil {
		panic(err)
	}
	server.Show(admin.Options{Registry: m.Stats()})
	metrics, err := http.Get("http://" + server.Addr().String() + "/metrics")
	if err != nil {
		panic(err)
	}
	io.Copy(os.Stdout, metrics.Body)
	for _, o := range config.Options {
		fmt.Println("option", o.Name, o.Default)
	}
	var r protocol.Request
	l := protocol.Limits{}.WithDefaults()
	_, _, err = l.Decode([]byte("persist  k noreply\r\n"), &r)
	fmt.Println("routes", route.AcceptsNames.All())
	fmt.Println("policy", answer("set k 0 0 1\r\nx\r\n"))
	fmt.Printf("command %v %q %q %t %v\n", r.Command, r.Keys, r.Append(nil), r.Has(protocol.Writes), err)
}

// answer returns the answer to a request of a pool whose items must expire, and whose server is down.
func answer(request string) string {
	pool := given()
	pool.Writers = middleware.WritersOne
	m, err := middleware.New(middleware.Options{Listen: []string{"127.0.0.1:0"}, Pools: []middleware.PoolOptions{pool}, Routes: route.Routes{Default: "p"}})
	if err != nil {
		panic(err)
	}
	if err := m.Listen(); err != nil {
		panic(err)
	}
	go m.Run(context.Background())
	c, err := net.Dial("tcp", m.Addrs()[0].String())
	if err != nil {
		panic(err)
	}
	fmt.Fprint(c, request)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		panic(err)
	}
	return line
}

// given returns the options of a pool with the policy, as the configuration has them.
func given() middleware.PoolOptions {
	file := filepath.Join(os.TempDir(), fmt.Sprintf("recipe-%d.yaml", os.Getpid()))
	if err := os.WriteFile(file, []byte("pools: {p: {servers: [\"127.0.0.1:1\"], must-expire: true}}\nroutes: [{default: p}]\n"), 0o600); err != nil {
		panic(err)
	}
	defer os.Remove(file)
	c, err := config.Load(config.Sources{Flags: config.AddFlags(pflag.NewFlagSet("mcmw", pflag.ContinueOnError)), Env: []string{"MCMW_CONFIG=" + file}})
	if err != nil {
		panic(err)
	}
	return c.With([]route.Server{{Pool: "p", Name: "a", Addr: "127.0.0.1:1"}}).Pools[0]
}
`

// The test applies the recipes to copies of the files, which replace the files in the compiler's overlay.
func TestTheRecipesOfCONTRIBUTINGMakeCountersACommandAKindOfRouteAPolicyAndAnOption(t *testing.T) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	changed := map[string]string{} // file -> text
	places := 0
	for _, block := range regexp.MustCompile("(?s)```diff\n(.*?)```").
		FindAllStringSubmatch(read(t, "../CONTRIBUTING.md"), -1) {
		for _, hunk := range strings.Split(block[1], "--- ")[1:] {
			name, lines, _ := strings.Cut(hunk, "\n")
			var before, after string
			for line := range strings.Lines(lines) {
				after += line[1:]
				if line[0] == ' ' {
					before += line[1:]
				}
			}
			path := filepath.Join(root, name)
			if changed[path] == "" {
				changed[path] = read(t, path)
			}
			require.Equal(t, 1, strings.Count(changed[path], "\n"+before),
				"%s must have these lines exactly once, with nothing between them:\n%s", name, before)
			changed[path] = strings.Replace(changed[path], "\n"+before, "\n"+after, 1)
			places++
		}
	}
	require.Equal(t, 3+3+2+3+3+2, places, "a counter, with labels or without, a kind of route and a policy of a "+
		"pool change three places, a command and an option two")

	changed[filepath.Join(root, "cmd", "recipe", "main.go")] = recipeProgram
	dir := t.TempDir()
	replace := map[string]string{}
	for path, text := range changed {
		replace[path] = filepath.Join(dir,
			strings.ReplaceAll(strings.TrimPrefix(path, root), string(filepath.Separator), "_"))
		require.NoError(t, os.WriteFile(replace[path], []byte(text), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	command := exec.Command("go", "run", "-overlay", filepath.Join(dir, "overlay.json"), "mcmw/cmd/recipe")
	command.Dir = root
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "\nmcmw_refused_logins_total 0\n")
	require.Contains(t, string(out), "\nmcmw_refused_calls_total{reason=\"down\"} 7\n")
	require.Contains(t, string(out), "\nmcmw_refused_calls_total{reason=\"timeout\"} 0\n")
	require.Contains(t, string(out), "option keep-alive 15s\n")
	require.Contains(t, string(out), "routes [all reads nothing deletes]\n")
	require.Contains(t, string(out), "policy CLIENT_ERROR items of this pool must expire\r\n")
	require.Contains(t, string(out), `command persist "k" "persist k\r\n" true <nil>`)
}
