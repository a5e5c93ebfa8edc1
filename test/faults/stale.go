package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mcmw/internal/faulty"
	"mcmw/lab/process"
)

// Stale compares proxies: it counts the reads that return an old value after one of three servers could not be reached
// for a while. All keys are stored, the server is cut off, all keys are stored again with another value, the server can
// be reached again, and all keys are read. A read is stale if it returns the first value of a key whose second value
// was acknowledged.
type Stale struct {
	// Mcmw, Twemproxy and Memcached are the paths of the programs. Memcached must have the proxy and accept an explicit
	// cas.
	Mcmw, Twemproxy, Memcached string
	// Runs is the number of repetitions, with new processes each.
	Runs int
}

const (
	staleServers = 3
	staleKeys    = 1000
	staleRounds  = 10 // of reads of all keys
	staleTries   = 50 // of a write, with a pause after each failure
	stalePause   = 20 * time.Millisecond
	// staleReturn is the time from the server's return until the reads: every proxy has connected to it again by then.
	staleReturn = 5 * time.Second
)

// StaleProxies are the proxies that are compared, as a figure names them.
var StaleProxies = []string{"mcmw", "memcached's proxy", "twemproxy"}

// StaleRun is the result of a run with one proxy. Failed counts reads without an answer from a server.
type StaleRun struct{ Acknowledged, Reads, Stale, Misses, Failed int }

// Run makes the runs and returns their results by proxy, in the order of StaleProxies.
func (s Stale) Run(ctx context.Context, progress func(string)) ([][]StaleRun, error) {
	results := make([][]StaleRun, len(StaleProxies))
	for run := range s.Runs {
		for i, name := range StaleProxies {
			r, err := s.run(ctx, name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			progress(fmt.Sprintf("run %d, %s: %d of %d writes acknowledged, %d of %d reads stale, %d misses, %d failed",
				run+1, name, r.Acknowledged, staleKeys, r.Stale, r.Reads, r.Misses, r.Failed))
			results[i] = append(results[i], r)
		}
	}
	return results, nil
}

// run makes one run with new processes.
func (s Stale) run(ctx context.Context, name string) (r StaleRun, err error) {
	dir, err := os.MkdirTemp("", "mcmwlab-stale")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	var paths []*faulty.Proxy
	var addrs []string
	for i := range staleServers {
		server, err := launch(ctx, "server-"+strconv.Itoa(i+1), "127.0.0.1", func(port int) *exec.Cmd {
			return memcached(s.Memcached, "127.0.0.1", port)
		})
		if err != nil {
			return r, err
		}
		defer server.Stop(syscall.SIGKILL)
		path, err := faulty.StartProxy(server.Addr)
		if err != nil {
			return r, err
		}
		defer path.Stop()
		paths, addrs = append(paths, path), append(addrs, path.Addr())
	}
	proxy, err := launch(ctx, name, "127.0.0.1", func(port int) *exec.Cmd {
		return s.command(name, dir, port, addrs)
	})
	if err != nil {
		return r, err
	}
	defer proxy.Stop(syscall.SIGKILL)
	c := &staleClient{addr: proxy.Addr}
	defer c.close()
	if n := c.store("old"); len(n) != staleKeys {
		return r, fmt.Errorf("only %d of %d keys could be stored while all servers were there", len(n), staleKeys)
	}
	paths[0].Inject(faulty.Fault{Lose: true, Refuse: true})
	acknowledged := c.store("new")
	r.Acknowledged = len(acknowledged)
	paths[0].Inject(faulty.Fault{})
	select {
	case <-ctx.Done():
		return r, context.Cause(ctx)
	case <-time.After(staleReturn):
	}
	for range staleRounds {
		for key := range acknowledged {
			r.Reads++
			switch value, err := c.get(key); {
			case err != nil:
				r.Failed++
			case value == "":
				r.Misses++
			case value != "new":
				r.Stale++
			}
		}
	}
	return r, nil
}

// command returns the command that starts a proxy in front of servers, in the way that keeps its clients served when a
// server is away. Its configuration is in dir.
func (s Stale) command(name, dir string, port int, servers []string) *exec.Cmd {
	listen := "127.0.0.1:" + strconv.Itoa(port)
	config := filepath.Join(dir, "config")
	// without it the program ends, and Launch says so
	write := func(text string) { _ = os.WriteFile(config, []byte(text), 0o644) }
	switch name {
	case "mcmw":
		return exec.Command(s.Mcmw, "serve", "--listen", listen, "--admin", "off", "--servers",
			strings.Join(servers, ","))
	// it has no replicas: a server that fails is ejected, and its keys move to the others. md5 spreads these keys
	// evenly, unlike fnv1a_64
	case "twemproxy":
		write("lab:\n  listen: " + listen +
			"\n  hash: md5\n  distribution: ketama\n  auto_eject_hosts: true\n  server_failure_limit: 1\n" +
			"  server_retry_timeout: 2000\n  timeout: 400\n  servers:\n    - " + strings.Join(servers, ":1\n    - ") +
			":1\n")
		return exec.Command(s.Twemproxy, "--conf-file", config, "--stats-port", strconv.Itoa(freePort()))
	}
	var backends strings.Builder
	for i, addr := range servers {
		host, p, _ := net.SplitHostPort(addr) // valid: faulty.Proxy has made it
		fmt.Fprintf(&backends, "mcp.pool({mcp.backend(\"s%d\", %q, %s)}), ", i+1, host, p)
	}
	write(fmt.Sprintf(replicatingProxy, backends.String()))
	return memcached(s.Memcached, "127.0.0.1", port, "-o", "proxy_config="+config)
}

// freePort returns a free port, or 0 if there is none.
func freePort() int {
	port, _ := process.FreePort("127.0.0.1")
	return port
}

// replicatingProxy is a configuration of memcached's proxy, with the servers to be inserted: writes go to all servers
// and are answered with the first success; reads go to each in turn, and to the next one after an error.
const replicatingProxy = `function mcp_config_pools()
  mcp.backend_connect_timeout(0.4)
  mcp.backend_read_timeout(0.4)
  mcp.backend_failure_limit(1)
  mcp.backend_retry_waittime(2)
  return {%s}
end
function mcp_config_routes(pools)
  local function route(name, f)
    local g = mcp.funcgen_new()
    local handles = {}
    for i, pool in ipairs(pools) do handles[i] = g:new_handle(pool) end
    g:ready({ n = name, f = function(context) return f(context, handles) end })
    return g
  end
  local turn = 0
  mcp.attach(mcp.CMD_ANY_STORAGE, route("all", function(context, handles)
    return function(request)
      context:enqueue(request, handles)
      context:wait_cond(#handles, mcp.WAIT_ANY)
      for _, handle in ipairs(handles) do
        local result = context:res_ok(handle)
        if result then return result end
      end
      return context:res_any(handles[1])
    end
  end))
  mcp.attach(mcp.CMD_GET, route("one", function(context, handles)
    return function(request)
      local result
      for _ = 1, #handles do
        turn = turn %% #handles + 1
        result = context:enqueue_and_wait(request, handles[turn])
        if result:ok() then return result end
      end
      return result
    end
  end))
end
`

// staleClient is a client with one connection, which it makes again after an error.
type staleClient struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
}

func (c *staleClient) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// ask sends a request and returns the first line of the reply.
func (c *staleClient) ask(request string) (line string, err error) {
	if c.conn == nil {
		if c.conn, err = net.Dial("tcp", c.addr); err != nil {
			c.conn = nil
			return "", err
		}
		c.in = bufio.NewReader(c.conn)
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	_ = c.conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err = io.WriteString(c.conn, request); err != nil {
		return "", err
	}
	line, err = c.in.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// store stores value under every key, and returns the keys for which that was acknowledged.
func (c *staleClient) store(value string) map[string]bool {
	acknowledged := map[string]bool{}
	for i := range staleKeys {
		key := "key-" + strconv.Itoa(i)
		for range staleTries {
			if line, err := c.ask(fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, len(value), value)); err == nil &&
				line == "STORED" {
				acknowledged[key] = true
				break
			}
			time.Sleep(stalePause)
		}
	}
	return acknowledged
}

// get returns the value of key; "": there is none.
func (c *staleClient) get(key string) (string, error) {
	line, err := c.ask("get " + key + "\r\n")
	if err != nil || line == "END" {
		return "", err
	}
	if !strings.HasPrefix(line, "VALUE ") {
		return "", fmt.Errorf("%q", line)
	}
	value, err := c.in.ReadString('\n')
	if err == nil {
		_, err = c.in.ReadString('\n') // END
	}
	if err != nil {
		c.close()
	}
	return strings.TrimRight(value, "\r\n"), err
}
