package main

const serverTime = "mcmw_server_duration_seconds"

// chosen selects the servers that the dashboard's variable chooses.
const chosen = `server=~"$server"`

var serverLoad = count("server", serverTime, chosen)

// servers compares the memcached servers: load, time, state, and replicas to repair.
func servers() board {
	byServer := func(expr string) []query { return []query{{expr, "{{server}}"}} }
	byFollower := func(expr string) []query { return []query{{expr, "{{pool}} to {{follower}}"}} }
	return board{
		name: "mcmw-servers", title: "mcmw / Servers", from: "1h", refresh: "10s",
		description: "The memcached servers as mcmw sees them: load, time, failures, state and replicas to repair.",
		variables:   []variable{{"server", "Server", of("mcmw_server_state"), "server"}},
		rows: []row{
			{"State", []panel{
				{
					kind: states, title: "State of the servers", unit: "none", width: half,
					queries: []query{{
						over("max server", of("mcmw_server_state", `state="stale"`,
							chosen)+" or 2 * "+of("mcmw_server_state", `state="down"`, chosen)), "{{server}}",
					}},
					values: map[string]mark{
						"0": {text: "up", color: good}, "1": {text: "stale", color: warn},
						"2": {text: "down", color: bad},
					},
					description: "The worst state that any mcmw instance sees. stale: the server missed writes and " +
						"serves no reads until those keys are deleted on it; down: it failed several times in a row.",
				},
				{
					kind: lines, title: "Failures", unit: "short", width: half,
					queries: []query{{perSecond("server", "mcmw_server_errors_total", chosen), "{{server}}"}},
					description: "Failures per second, of any kind: no connection, no reply in time, a reset, an " +
						"invalid reply, an error reported by the server.",
				},
			}},
			{"Load and skew", []panel{
				{
					kind: stack, title: "Requests", unit: "reqps", width: half, queries: byServer(serverLoad),
					description: "Requests, or parts of requests, that each server served per second.",
				},
				{
					kind: lines, title: "Skew of the load", unit: "short", width: half,
					queries: byServer("(" + serverLoad + ") / scalar(avg(" + serverLoad + "))"),
					description: "Each server's load as a multiple of the mean: 1 if the load is even. A few hot " +
						"keys make it uneven.",
				},
				{
					kind: lines, title: "Utilization", unit: "percentunit", width: half,
					queries: byServer(over("max server",
						of("mcmw_model_utilization_ratio", `part="server"`, chosen))),
					description: "Share of the server's capacity that is in use, estimated from its response times, " +
						"over the last 10 s.",
				},
				{
					kind: stack, title: "Workers waiting for the server", unit: "short", width: half,
					queries:     byServer(perSecond("server", "mcmw_worker_wait_seconds_total", chosen)),
					description: "Mean number of workers blocked waiting for the server's reply.",
				},
			}},
			{"Time", []panel{
				{
					kind: lines, title: "Mean time", unit: "s", width: half,
					queries:     byServer(mean("server", serverTime, chosen)),
					description: "Time from the write to the server until its reply was read.",
				},
				{
					kind: lines, title: "p99 of the time", unit: "s", width: half, log: true,
					queries:     byServer(quantile(0.99, "server", serverTime, chosen)),
					description: "99 % of the server's requests took at most this time.",
				},
				{
					kind: lines, title: "Slowest server relative to the mean", unit: "short", width: half,
					queries: []query{{
						// idle servers have NaN
						"max(" + mean("server", serverTime, chosen) + ") / avg((" + mean("server", serverTime, chosen) +
							") > 0)", "slowest / mean",
					}},
					description: "Mean time of the slowest server as a multiple of the mean over the servers. A " +
						"multi-get that is split over servers takes as long as the slowest one.",
				},
				{
					kind: heat, title: "Times of the servers", unit: "s", width: half,
					queries:     []query{{buckets(serverTime, chosen), ""}},
					description: "Requests per second by the server's time.",
				},
			}},
			{"Reported by memcached", []panel{
				{
					kind: lines, title: "Memory in use", unit: "percentunit", width: third,
					queries: byServer(over("max server",
						of("mcmw_memcached_items_bytes", chosen)+" / "+of("mcmw_memcached_limit_bytes", chosen))),
					description: "Memory of the items as a share of the memory limit (-m). A full memcached shows " +
						"less than 100 %, because items don't fill their slabs.",
				},
				{
					kind: lines, title: "Evictions", unit: "short", width: third,
					queries:     byServer(over("max server", rate("mcmw_memcached_evictions_total", chosen))),
					description: "Items per second that were removed before they expired, to make room for others.",
				},
				{
					kind: lines, title: "Hit ratio", unit: "percentunit", width: third,
					queries: byServer(over("max server", ratio(rate("mcmw_memcached_hits_total", chosen),
						rate("mcmw_memcached_hits_total", chosen)+" + "+rate("mcmw_memcached_misses_total", chosen)))),
					description: "Share of the keys that reads found on the server, over all its clients.",
				},
				{
					kind: lines, title: "Items", unit: "short", width: half,
					queries:     byServer(over("max server", of("mcmw_memcached_items", chosen))),
					description: "Items on the server.",
				},
				{
					kind: lines, title: "Connections in use", unit: "percentunit", width: half,
					queries: byServer(over("max server",
						of("mcmw_memcached_connections", chosen)+" / "+of("mcmw_memcached_max_connections", chosen))),
					description: "Connections to the server, of all its clients, as a share of its limit (-c).",
				},
			}},
			{"Hot keys", []panel{
				{
					kind: lines, title: "Share of the hottest keys", unit: "percentunit", width: third,
					queries: []query{{over("max top", of("mcmw_hot_keys_share")), "the hottest {{top}}"}},
					description: "Share of requests for the hottest 1, 10 and 100 keys, from a sample. mcmw top " +
						"--keys shows the keys.",
				},
				{
					kind: lines, title: "Gets answered from memory", unit: "percentunit", width: third,
					queries: []query{{ratio(perSecond("", "mcmw_requests_total", `result="hot"`),
						perSecond("", "mcmw_requests_total", `command="get"`)), "of all gets"}},
					description: "Share of all gets that mcmw answered from memory, with --hot-keys serve, without a " +
						"server.",
				},
				{
					kind: lines, title: "Hottest key of each server", unit: "percentunit", width: third,
					queries:     byServer(over("max server", of("mcmw_server_hottest_key_share", chosen))),
					description: "Share of the server's requests that are for a single key.",
				},
			}},
			{"Shadows and migrations", []panel{
				{
					kind: stack, title: "Answers of shadows", unit: "short", width: quarter,
					queries: []query{{
						perSecond("shadow, result", "mcmw_shadow_answers_total"),
						"{{shadow}} {{result}}",
					}},
					description: "Copied requests per second by the shadow's answer: same, different, miss (only the " +
						"client got a value), hit (only the shadow has a value), unknown, error, or ignored.",
				},
				{
					kind: lines, title: "Copies dropped", unit: "short", width: quarter,
					queries: []query{{
						perSecond("shadow, reason", "mcmw_shadow_dropped_total"),
						"{{shadow}} {{reason}}",
					}},
					description: "Requests per second that were not copied to the shadow because too many or too " +
						"large copies were waiting.",
				},
				{
					kind: lines, title: "Keys of migrations", unit: "short", width: quarter,
					queries: []query{{
						over("max from, to, keys", of("mcmw_migration_keys")),
						"{{from}} to {{to}}: {{keys}}",
					}},
					description: "Keys examined in this round, keys in total, and keys that could not be copied.",
				},
				{
					kind: lines, title: "Keys copied", unit: "short", width: quarter,
					queries: []query{{
						perSecond("from, to", "mcmw_migration_keys_copied_total"),
						"{{from}} to {{to}}",
					}},
					description: "Keys copied to the new pool per second.",
				},
			}},
			{"Pools that follow", []panel{
				{
					kind: lines, title: "Keys owed", unit: "short", width: quarter,
					queries: byFollower(over("sum pool, follower", of("mcmw_follow_debts"))),
					description: "Keys whose latest write in the pool the following pool has not got yet. They grow " +
						"while it cannot be reached.",
				},
				{
					kind: lines, title: "Age of the oldest", unit: "s", width: quarter,
					queries:     byFollower(over("max pool, follower", of("mcmw_follow_age_seconds"))),
					description: "For how long the oldest of these writes has been waiting.",
				},
				{
					kind: stack, title: "Keys delivered", unit: "short", width: quarter,
					queries: []query{{
						perSecond("pool, follower, result", "mcmw_follow_keys_total"),
						"{{pool}} to {{follower}}: {{result}}",
					}},
					description: "Per second. delete: the copy failed, and the key was deleted. dropped: there was " +
						"no memory for the debt.",
				},
				{
					kind: states, title: "May lack writes", unit: "none", width: quarter,
					queries: byFollower(over("max pool, follower", of("mcmw_follow_doubtful"))),
					values: map[string]mark{
						"0": {text: "no", color: good}, "1": {text: "may lack writes", color: bad},
					},
					description: "Whether writes may be missing that are not owed any more.",
				},
			}},
			{"Replicas", []panel{
				{
					kind: lines, title: "Missed keys pending", unit: "short", width: third,
					queries: byServer(over("sum server", of("mcmw_server_missed_keys", chosen))),
					description: "Keys whose latest write the server may have missed. They are deleted on it before " +
						"it serves reads again.",
				},
				{
					kind: lines, title: "Repairs", unit: "short", width: third,
					queries: byServer(perSecond("server", "mcmw_repairs_total", chosen)),
					description: "Keys deleted on the server per second because its answer to a write differed from " +
						"that of the other replicas.",
				},
				{
					kind: lines, title: "Changes of state", unit: "short", width: third,
					queries: []query{{
						over("sum server, state",
							"increase("+of("mcmw_server_transitions_total", chosen)+"[$__rate_interval])"),
						"{{server}} {{state}}",
					}},
					description: "How often the server entered each state.",
				},
				{
					kind: lines, title: "Time of the refill", unit: "s", width: half,
					queries: byServer(over("max server", of("mcmw_server_refill_seconds", chosen))),
					description: "For how long the server, which returned without its keys, has not been read " +
						"because it is refilled from the other replicas; 0: it is not.",
				},
				{
					kind: stack, title: "Keys copied to refill a server", unit: "short", width: half,
					queries:     byServer(perSecond("server", "mcmw_server_refilled_keys_total", chosen)),
					description: "Keys copied to the server from the other replicas per second.",
				},
			}},
		},
	}
}
