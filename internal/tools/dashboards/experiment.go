package main

// experiment shows one run of a load: offered load, throughput, response time, stages, and the model's predictions.
func experiment() board {
	return board{
		name: "mcmw-experiment", title: "mcmw / Experiment", from: "15m", refresh: "5s",
		description: "One run of load against mcmw: throughput, response time, stages and queue, compared with " +
			"queueing theory.",
		rows: []row{
			{"Set-up", []panel{
				{
					kind: number, title: "Workers", unit: "none", width: quarter,
					queries:     []query{{over("sum", of("mcmw_workers")), ""}},
					description: "Workers of the selected mcmw instances.",
				},
				{
					kind: number, title: "Servers", unit: "none", width: quarter,
					queries:     []query{{"count(" + over("group server", of("mcmw_server_state")) + ")", ""}},
					description: "Number of memcached servers.",
				},
				{
					kind: number, title: "Client connections", unit: "none", width: quarter,
					queries:     []query{{over("sum", of("mcmw_connections")), ""}},
					description: "Open client connections.",
				},
				{
					kind: number, title: "Program", unit: "none", width: quarter,
					queries: []query{{
						over("count version, goversion", of("mcmw_build_info")),
						"{{version}} {{goversion}}",
					}},
					description: "mcmw instances by version and Go version.",
				},
			}},
			{"Throughput and response time", []panel{
				{
					kind: lines, title: "Throughput", unit: "reqps", width: half,
					queries: []query{
						{perSecond("", "mcmw_arrivals_total"), "offered"},
						{answered(""), "answered"},
					},
					description: "Requests per second that were enqueued, and that were answered.",
				},
				{
					kind: lines, title: "Response time", unit: "s", width: half, log: true,
					queries: append([]query{{mean("", responseTime), "mean"}}, percentiles...),
					description: "Mean and percentiles, from the read that completed the request until its reply was " +
						"written to the socket.",
				},
				{
					kind: percents, title: "Share of the stages", unit: "s", width: half, queries: stageMeans,
					colors:      stageColors,
					description: "Share of the response time spent in each stage.",
				},
				{
					kind: heat, title: "Response times", unit: "s", width: half,
					queries:     []query{{buckets(responseTime), ""}},
					description: "Requests per second by response time.",
				},
			}},
			{"Model against measurement", []panel{
				{
					kind: lines, title: "Little's law in the queue", unit: "short", width: third,
					queries: []query{{over("sum of", of("mcmw_model_requests", `law="queue"`)), "{{of}}"}},
					description: "Mean number of waiting requests: sampled, and as arrival rate times waiting time. " +
						"If they differ, a measurement is wrong.",
				},
				{
					kind: lines, title: "Little's law in service", unit: "short", width: third,
					queries:     []query{{over("sum of", of("mcmw_model_requests", `law="service"`)), "{{of}}"}},
					description: "Mean number of requests in service: sampled, and as throughput times service time.",
				},
				{
					kind: lines, title: "Wait in the queue, M/M/m", unit: "s", width: third,
					queries: []query{{over("avg of", of("mcmw_model_queue_wait_seconds")), "{{of}}"}},
					description: "Mean wait in the queue: measured, and of an M/M/m queue with the same arrival " +
						"rate, service time and number of workers. 0 if such a queue would grow without bound.",
				},
				{
					kind: lines, title: "Utilization by part", unit: "percentunit", width: half,
					queries:     []query{utilization},
					description: "Utilization of each part, by the model.",
				},
				{
					kind: lines, title: "Throughput and capacity", unit: "reqps", width: half,
					queries: []query{
						{answered(""), "answered"},
						{
							over("max part, server", of("mcmw_model_part_capacity_requests_per_second")+" > 0"),
							"{{part}} {{server}}",
						},
					},
					description: "The rate of requests at which each part would saturate; the lowest line is the " +
						"limit.",
				},
			}},
			{"Cost", []panel{
				{
					kind: lines, title: "Processor time per request", unit: "s", width: half,
					queries: []query{{
						perSecond("", "process_cpu_seconds_total") + " / " + answered(""),
						"processor time",
					}},
					description: "Processor time that mcmw uses per request.",
				},
				{
					kind: lines, title: "Requests per round", unit: "short", width: half,
					queries:     []query{{classicMean("", "mcmw_worker_round_requests"), "requests"}},
					description: "Mean number of requests that a worker takes at a time, at most --depth.",
				},
			}},
		},
	}
}
