package testbed

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"mcmw/lab/agent"
	"mcmw/lab/experiment"
	"mcmw/lab/process"
)

// startMiddleware starts middleware i, counted from 0: an mcmw, or another system if the point names one.
func (d *deployment) startMiddleware(ctx context.Context, v experiment.Values, i int) (Member, error) {
	system := d.t.programs.Systems[v[experiment.System]]
	system.Binary = cmp.Or(system.Binary, d.t.programs.Mcmw)
	second := 0 // port for twemproxy's statistics, or for profiles of mcmw
	profiled := system.Kind != experiment.Twemproxy && v[experiment.Profile] == "true"
	if system.Kind == experiment.Twemproxy || profiled {
		var err error
		if second, err = d.t.hosts.host(Middleware, i).FreePort(ctx); err != nil {
			return Member{}, err
		}
	}
	copies := v[experiment.Replicas]
	replicated := copies == "all" || copies == strconv.Itoa(len(d.servers))
	if system.Kind == experiment.Proxy && !replicated && copies != "1" {
		return Member{}, fmt.Errorf("replicas %s: memcached's proxy is run with one copy or with all; accepted: 1, all",
			copies)
	}
	var log *Log
	admin := ""
	m, err := d.startMember(ctx, Middleware, i, "middleware:"+strconv.Itoa(i), func(host string, port int) Program {
		p, config := Program{Path: system.Binary, CPUs: v.Processors(experiment.MiddlewareCPUs)}, ""
		switch system.Kind {
		case experiment.Twemproxy:
			config = d.twemproxyConfig(host, port)
			p.Args = []string{
				"-c", configPath, "-m", "16384", "-o", "/dev/stderr", "-a", host, "-s", strconv.Itoa(second),
			}
		case experiment.Proxy:
			config = d.proxyConfig(replicated)
			p.Args = append(memcachedArgs(v, host, port), "-o", "proxy_config="+configPath)
		case experiment.Floor:
			p.Args = []string{net.JoinHostPort(host, strconv.Itoa(port))}
			for _, server := range d.servers {
				p.Args = append(p.Args, server.Address)
			}
		default:
			if profiled {
				admin = net.JoinHostPort(process.Loopback, strconv.Itoa(second)) // elsewhere it has no profiles
			}
			p.Args = d.mcmwArgs(v, host, port, cmp.Or(admin, "off"))
			if v[experiment.Statistics] == "true" {
				log = NewLog()
				p.Stdout = log
			}
		}
		p.Args = append(p.Args, system.Flags...)
		if config != "" { // its file is gone when the program has ended
			p.Args = agent.Task{Configured: &agent.Configured{Config: config, Program: p.Path, Args: p.Args}}.Args()
			p.Path = d.t.programs.Mcmwlab
		}
		return p
	})
	m.Log, m.Admin = log, admin
	return m, err
}

func (d *deployment) mcmwArgs(v experiment.Values, host string, port int, admin string) []string {
	var servers []string
	for i, m := range d.servers {
		servers = append(servers, serverName(i)+"="+m.Address)
	}
	args := []string{
		"serve", "--listen", net.JoinHostPort(host, strconv.Itoa(port)), "--servers", strings.Join(servers, ","),
		"--admin", admin, "--log-level", "warn",
	}
	args = append(args, v.Args(experiment.Mcmw)...)
	if v[experiment.Statistics] == "true" {
		args = append(args, StatisticsArgs()...)
	}
	return append(args, v.Flags(experiment.MiddlewareFlags)...)
}

// StatisticsArgs returns the arguments that make a middleware write the statistics log to its standard output.
func StatisticsArgs() []string {
	return []string{"--stats-file", "/dev/stdout", "--stats-window", statisticsWindow.String()}
}

// statisticsWindow is the length of the middlewares' windows. Only windows inside the measured time are used: with
// windows of a second, a run of a second could have none.
const statisticsWindow = 200 * time.Millisecond

// configPath stands for the path of the configuration file in the arguments of an agent.Configured.
const configPath = "{}"

// twemproxyConfig returns a configuration of nutcracker that spreads the keys over the servers, as its users do.
func (d *deployment) twemproxyConfig(host string, port int) string {
	var config strings.Builder
	fmt.Fprintf(&config, `lab:
  listen: %s
  hash: fnv1a_64
  distribution: ketama
  auto_eject_hosts: false
  preconnect: true
  server_connections: 1
  servers:
`, net.JoinHostPort(host, strconv.Itoa(port)))
	for _, server := range d.servers {
		fmt.Fprintf(&config, "    - %s:1\n", server.Address)
	}
	return config.String()
}

// proxyConfig returns a configuration of memcached's proxy that spreads the keys over the servers or, if replicated,
// writes to all of them, waits for all replies, and reads from one after the other.
func (d *deployment) proxyConfig(replicated bool) string {
	config := "function mcp_config_pools()\n  local backends = {"
	for i, server := range d.servers {
		host, port, _ := net.SplitHostPort(server.Address) // valid: startMember has joined it
		config += fmt.Sprintf("mcp.backend(%q, %q, %s), ", serverName(i), host, port)
	}
	return config + "}\n" + proxyPools + map[bool]string{false: shardedProxy, true: replicatedProxy}[replicated]
}

const proxyPools = `  local each = {}
  for i, backend in ipairs(backends) do each[i] = mcp.pool({ backend }) end
  return { all = mcp.pool(backends), each = each }
end
`

const shardedProxy = `
function mcp_config_routes(pools)
  local route = mcp.funcgen_new()
  local servers = route:new_handle(pools.all)
  route:ready({ n = "lab", f = function(context)
    return function(request) return context:enqueue_and_wait(request, servers) end
  end })
  mcp.attach(mcp.CMD_ANY_STORAGE, route)
end
`

const replicatedProxy = `
function mcp_config_routes(pools)
  local function handles(route)
    local all = {}
    for i, pool in ipairs(pools.each) do all[i] = route:new_handle(pool) end
    return all
  end
  local writes = mcp.funcgen_new()
  local all = handles(writes)
  writes:ready({ n = "writes", f = function(context)
    return function(request)
      context:enqueue(request, all)
      context:wait_cond(#all, mcp.WAIT_ANY)
      for _, handle in ipairs(all) do
        local reply = context:res_any(handle)
        if not reply:ok() or handle == all[#all] then return reply end
      end
    end
  end })
  local reads = mcp.funcgen_new()
  local each, last = handles(reads), 0
  reads:ready({ n = "reads", f = function(context)
    return function(request)
      last = last % #each + 1
      return context:enqueue_and_wait(request, each[last])
    end
  end })
  mcp.attach(mcp.CMD_ANY_STORAGE, writes)
  for _, command in ipairs({ mcp.CMD_GET, mcp.CMD_GETS, mcp.CMD_MG }) do mcp.attach(command, reads) end
end
`
