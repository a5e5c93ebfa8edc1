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
		host, err := d.t.hosts.Host(Middleware, i)
		if err == nil {
			second, err = host.FreePort(ctx)
		}
		if err != nil {
			return Member{}, err
		}
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
			config, p.Args = d.proxyConfig(), append(memcachedArgs(v, host, port), "-o", "proxy_config="+configPath)
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

// proxyConfig returns a configuration of memcached's proxy that spreads the keys over the servers.
func (d *deployment) proxyConfig() string {
	config := "function mcp_config_pools()\n  return mcp.pool({"
	for i, server := range d.servers {
		host, port, _ := net.SplitHostPort(server.Address) // valid: startMember has joined it
		config += fmt.Sprintf("mcp.backend(%q, %q, %s), ", serverName(i), host, port)
	}
	return config + `})
end
function mcp_config_routes(pool)
  local route = mcp.funcgen_new()
  local servers = route:new_handle(pool)
  route:ready({ n = "lab", f = function(context)
    return function(request) return context:enqueue_and_wait(request, servers) end
  end })
  mcp.attach(mcp.CMD_ANY_STORAGE, route)
end
`
}
