package middleware

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/hotkeys"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// appendStats appends the middleware's own list in the reply to `stats`: values that memcached has, under memcached's
// names; others, with the prefix mcmw_; and END.
func (m *Middleware) appendStats(dst []byte) []byte {
	s := m.registry.Snapshot()
	user, system := stats.ProcessorTimes()
	add := func(name string, value any) { dst = fmt.Appendf(dst, "STAT %s %v\r\n", name, value) }
	count := func(commands ...protocol.Command) (n uint64) {
		for _, c := range commands {
			for r, k := range s.Requests[c] {
				if stats.Result(r) != stats.ResultShed {
					n += k
				}
			}
		}
		return n
	}
	requests := func(c protocol.Command, r stats.Result) uint64 { return s.Requests[c][r] }
	add("pid", os.Getpid())
	add("uptime", s.Uptime/int64(time.Second))
	add("time", time.Now().Unix())
	add("version", m.version())
	add("rusage_user", fmt.Sprintf("%.6f", user.Seconds()))
	add("rusage_system", fmt.Sprintf("%.6f", system.Seconds()))
	add("curr_connections", s.Open())
	add("total_connections", s.Opened)
	add("rejected_connections", s.Closed[stats.CloseRefused])
	add("accepting_conns", 1)
	n := &s.Counted
	misses := s.Misses - min(s.Misses, n[stats.CountGatMisses]) + n[stats.CountGetMisses]
	gets := s.Keys - min(s.Keys, n[stats.CountGats]) + n[stats.CountGetHits] + n[stats.CountGetMisses]
	add("cmd_get", gets)
	add("cmd_set", count(protocol.Set, protocol.Add, protocol.Replace, protocol.Append, protocol.Prepend,
		protocol.Cas)+n[stats.CountSets])
	add("cmd_flush", count(protocol.FlushAll))
	touchHits := requests(protocol.Touch, stats.ResultOK) + n[stats.CountTouchHits]
	touchMisses := requests(protocol.Touch, stats.ResultNotStored) + n[stats.CountTouchMisses]
	add("cmd_touch", touchHits+touchMisses)
	add("cmd_meta", n[stats.CountMeta])
	add("get_hits", gets-min(gets, misses))
	add("get_misses", misses)
	for _, x := range []struct {
		name         string
		command      protocol.Command
		hits, misses stats.Counted
	}{
		{"delete", protocol.Delete, stats.CountDeleteHits, stats.CountDeleteMisses},
		{"incr", protocol.Incr, stats.CountIncrHits, stats.CountIncrMisses},
		{"decr", protocol.Decr, stats.CountDecrHits, stats.CountDecrMisses},
	} {
		add(x.name+"_hits", requests(x.command, stats.ResultOK)+n[x.hits])
		add(x.name+"_misses", requests(x.command, stats.ResultNotStored)+n[x.misses])
	}
	add("cas_hits", requests(protocol.Cas, stats.ResultOK)+n[stats.CountCasHits])
	add("cas_misses", n[stats.CountCasMisses])
	add("cas_badval", n[stats.CountCasBad])
	add("touch_hits", touchHits)
	add("touch_misses", touchMisses)
	add("auth_errors", s.LoginFailures)
	add("bytes_read", s.FromClients)
	add("bytes_written", s.ToClients)
	add("threads", s.Workers)
	add("mcmw_version", m.current.Load().options.Version)
	add("mcmw_requests", s.Total())
	add("mcmw_shed", s.Ended(stats.ResultShed))
	add("mcmw_hot", s.Hot())
	add("mcmw_request_memory", s.RequestMemory)
	add("mcmw_reply_memory", s.ReplyMemory)
	add("mcmw_depth", m.current.Load().options.Depth)
	add("mcmw_workers_busy", s.WorkersBusy)
	add("mcmw_queue_length", s.QueueLength)
	add("mcmw_queue_capacity", s.QueueCapacity)
	all := s.All()
	for _, q := range []struct {
		name string
		q    float64
	}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}} {
		add("mcmw_response_"+q.name+"_us", fmt.Sprintf("%.1f", all.Quantile(q.q)/1e3))
	}
	for stage := range stats.NumStages {
		add("mcmw_stage_"+stage.String()+"_mean_us", fmt.Sprintf("%.1f", s.Stages[stage].Mean()/1e3))
	}
	for _, server := range s.Servers {
		var errors uint64
		for _, n := range server.Errors {
			errors += n
		}
		add("mcmw_server:"+server.Name+":requests", server.Times.Count())
		add("mcmw_server:"+server.Name+":mean_us", fmt.Sprintf("%.1f", server.Times.Mean()/1e3))
		add("mcmw_server:"+server.Name+":errors", errors)
		add("mcmw_server:"+server.Name+":repairs", server.Repairs)
		add("mcmw_server:"+server.Name+":state", server.Health.State)
		add("mcmw_server:"+server.Name+":missed_keys", server.Health.Missed)
		add("mcmw_server:"+server.Name+":stalls", server.Health.Stalls)
		add("mcmw_server:"+server.Name+":flushes", server.Health.Flushes)
	}
	add("mcmw_sweep_running", map[bool]int{true: 1}[s.Sweep.Running])
	add("mcmw_sweep_keys", s.Sweep.Keys)
	add("mcmw_sweep_disagreements", s.Sweep.Disagreements)
	add("mcmw_sweep_cut", s.Sweep.Cut)
	for o, n := range s.Sweep.Outcomes {
		add("mcmw_sweeps_"+stats.SweepOutcome(o).String(), n)
	}
	if control := m.current.Load().options.Control; control != nil {
		c := control.Snapshot()
		add("mcmw_config_hash", c.Options)
		add("mcmw_config_servers_hash", c.Servers)
		for i, n := range c.Reloads {
			add("mcmw_config_reloads_"+stats.ReloadResult(i).String(), n)
		}
		for i, n := range c.Lookups {
			add("mcmw_server_lookups_"+stats.LookupResult(i).String(), n)
		}
		add("mcmw_server_list_updates_applied", c.Updates[stats.ReloadApplied])
		add("mcmw_server_list_updates_refused", c.Updates[stats.ReloadRefused])
	}
	return append(dst, protocol.TextEnd...)
}

// AskServers asks all servers at the same time for their statistics, until ctx ends, and returns the answers by the
// servers' names. A server that does not answer is left out.
func (m *Middleware) AskServers(ctx context.Context) map[string]stats.Memcached {
	var mu sync.Mutex // guards answers
	answers := map[string]stats.Memcached{}
	c := m.current.Load()
	servers := slices.Clone(c.servers)
	for _, s := range c.shadows() {
		servers = append(servers, s.inner.current.Load().servers...)
	}
	eachAnswering(servers, func(s *backend.Server) {
		if answer, err := s.Ask(ctx); err == nil {
			mu.Lock()
			defer mu.Unlock()
			answers[s.Name] = answer
		}
	})
	return answers
}

// version returns what `version` answers if no server can; mcmw's own version if no server has told one.
func (m *Middleware) version() string {
	c := m.current.Load()
	for _, s := range c.servers {
		if v := s.Version(); v != "" {
			return v
		}
	}
	return "mcmw-" + c.options.Version
}

// HotKeys returns the n keys that are asked for most, with their names if names is true. If Options.HotKeys is off
// there are none.
func (m *Middleware) HotKeys(n int, names bool) hotkeys.Report {
	c := m.current.Load()
	var all []string
	for _, s := range c.servers {
		all = append(all, s.Name)
	}
	reads := c.router.ForReads()
	return m.hot.Report(n, names, stats.Now(), all, func(key []byte) []string {
		var of []string
		for _, s := range reads.Replicas(key, nil) {
			of = append(of, all[s])
		}
		return of
	})
}
