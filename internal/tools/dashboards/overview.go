package main

const responseTime = "mcmw_request_duration_seconds"

// failed is the rate of requests that were answered with SERVER_ERROR.
func failed(by string) string { return perSecond(by, "mcmw_requests_total", `result="server_error"`) }

// answered is the rate of all requests.
func answered(by string) string { return perSecond(by, "mcmw_requests_total") }

var (
	hitRatio    = "1 - " + ratio(perSecond("", "mcmw_key_misses_total"), perSecond("", "mcmw_keys_total"))
	percentiles = []query{
		{quantile(0.5, "", responseTime), "p50"},
		{quantile(0.9, "", responseTime), "p90"},
		{quantile(0.99, "", responseTime), "p99"},
		{quantile(0.999, "", responseTime), "p99.9"},
	}
	stageMeans = []query{{mean("stage", "mcmw_request_stage_duration_seconds"), "{{stage}}"}}
)

// overview shows how the middleware serves its clients: rate, errors, duration.
func overview() board {
	return board{
		name: "mcmw-overview", title: "mcmw / Overview", from: "1h", refresh: "10s",
		description: "Rate, errors and duration of the requests that mcmw answers.",
		rows: []row{
			{"Now", []panel{
				{
					kind: number, title: "Requests", unit: "reqps", width: sixth, queries: []query{{answered(""), ""}},
					description: "Answered requests per second.",
				},
				{
					kind: number, title: "Failed", unit: "percentunit", width: sixth, marks: badAt(0.0001, 0.001),
					queries:     []query{{ratio(failed(""), answered("")), ""}},
					description: "Share of the requests that were answered with SERVER_ERROR.",
				},
				{
					kind: number, title: "Median response time", unit: "s", width: sixth, queries: percentiles[:1],
					description: "Half of the requests were answered within this time.",
				},
				{
					kind: number, title: "p99 response time", unit: "s", width: sixth, queries: percentiles[2:3],
					marks:       badAt(0.01, 0.1),
					description: "99 % of the requests were answered within this time.",
				},
				{
					kind: number, title: "Keys found", unit: "percentunit", width: sixth,
					queries:     []query{{hitRatio, ""}},
					description: "Share of the keys of retrievals that were found.",
				},
				{
					kind: number, title: "Servers not up", unit: "none", width: sixth, marks: badAt(1, 1),
					queries: []query{{"count(" + of("mcmw_server_state", `state!="up"`) +
						" == 1) or vector(0)", ""}},
					description: "Servers that are stale or down, counted once for each mcmw instance that sees this.",
				},
			}},
			{"Rate and errors", []panel{
				{
					kind: stack, title: "Requests by command", unit: "reqps", width: half,
					queries:     []query{{perSecond("command", "mcmw_requests_total") + " > 0", "{{command}}"}},
					description: "Answered requests per second.",
				},
				{
					kind: lines, title: "Requests by instance", unit: "reqps", width: half,
					queries: []query{{answered("instance"), "{{instance}}"}},
					description: "Answered requests per second of each mcmw instance. Clients should be spread over " +
						"all.",
				},
				{
					kind: lines, title: "Results other than success", unit: "reqps", width: half,
					queries: []query{{perSecond("result", "mcmw_requests_total", `result!="ok"`), "{{result}}"}},
					description: "miss and partial: keys that were not found. not_stored: a condition was not met. " +
						"client_error: the request was refused. server_error: a server or mcmw failed.",
				},
				{
					kind: lines, title: "Failed requests", unit: "percentunit", width: half,
					queries:     []query{{ratio(failed("instance"), answered("instance")), "{{instance}}"}},
					description: "Share of the requests that were answered with SERVER_ERROR.",
				},
			}},
			{"Duration", []panel{
				{
					kind: heat, title: "Response times", unit: "s", width: half,
					queries:     []query{{buckets(responseTime), ""}},
					description: "Requests per second by response time.",
				},
				{
					kind: lines, title: "Percentiles of the response time", unit: "s", width: half,
					queries: percentiles, log: true,
					description: "From the read that completed the request until its reply was written to the socket.",
				},
				{
					kind: stack, title: "Where the time goes", unit: "s", width: half, queries: stageMeans,
					colors: stageColors,
					description: "Mean time per request in each stage; the sum is the mean response time. net: " +
						"reading, and waiting for the connection's previous batch; queue: waiting for a worker; " +
						"worker: until the last write to a server; server: until the last reply; reply: until the " +
						"reply was written to the socket.",
				},
				{
					kind: lines, title: "p99 by command", unit: "s", width: half, log: true,
					queries:     []query{{quantile(0.99, "command", responseTime) + " > 0", "{{command}}"}},
					description: "99 % of the requests of each class of commands were answered within this time.",
				},
			}},
			{"Keys and clients", []panel{
				{
					kind: lines, title: "Keys found", unit: "percentunit", width: third,
					queries:     []query{{hitRatio, "found"}},
					description: "Share of the keys of retrievals that were found.",
				},
				{
					kind: lines, title: "Client connections", unit: "short", width: third,
					queries:     []query{{over("sum instance", of("mcmw_connections")), "{{instance}}"}},
					description: "Open client connections.",
				},
				{
					kind: lines, title: "Traffic with clients", unit: "Bps", width: third,
					queries: []query{
						{perSecond("", "mcmw_received_bytes_total"), "requests"},
						{perSecond("", "mcmw_sent_bytes_total"), "replies"},
					},
					description: "Bytes per second from and to clients.",
				},
			}},
			{"Who uses the cache", []panel{
				{
					kind: stack, title: "Requests by route", unit: "reqps", width: quarter,
					queries: []query{{perSecond("route", "mcmw_route_requests_total"), "{{route}}"}},
					description: "Requests per second, one for each key, estimated from one key in 64. Empty with a " +
						"single route. mcmw top --prefixes shows the prefixes of keys.",
				},
				{
					kind: lines, title: "Keys found by route", unit: "percentunit", width: quarter,
					queries: []query{{ratio(perSecond("route", "mcmw_route_lookups_total", `result="hit"`),
						perSecond("route", "mcmw_route_lookups_total")), "{{route}}"}},
					description: "Share of the route's keys of retrievals that were found.",
				},
				{
					kind: lines, title: "Evicted soon by route", unit: "reqps", width: quarter,
					queries: []query{{perSecond("route", "mcmw_route_evicted_soon_total"), "{{route}}"}},
					description: "Misses per second of items that were stored less than ten minutes before and were " +
						"evicted.",
				},
				{
					kind: stack, title: "Requests by user", unit: "reqps", width: quarter,
					queries:     []query{{perSecond("user", "mcmw_user_requests_total"), "{{user}}"}},
					description: "Requests per second, one for each key, of each user of the auth-file.",
				},
			}},
		},
	}
}
