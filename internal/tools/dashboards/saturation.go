package main

// sampled is the mean of a sampled number of requests.
func sampled(by, name string) string {
	return perSecond(by, "mcmw_sampled_"+name+"_requests_total") + " / " + perSecond(by, "mcmw_samples_total")
}

var (
	// load is the utilization of the busiest part.
	load        = over("max", of("mcmw_model_utilization_ratio"))
	utilization = query{over("max part, server", of("mcmw_model_utilization_ratio")), "{{part}} {{server}}"}
	capacity    = over("sum", of("mcmw_model_capacity_requests_per_second")+" > 0")
	bottleneck  = over("max part, server", of("mcmw_model_bottleneck"))
)

// saturation shows how much more load the middleware can serve, and which part limits it: utilization, saturation,
// errors.
func saturation() board {
	return board{
		name: "mcmw-saturation", title: "mcmw / Saturation", from: "1h", refresh: "10s",
		description: "Utilization, saturation and errors of the parts of mcmw: processor, workers, queue, servers, " +
			"connections.",
		rows: []row{
			{"Now", []panel{
				{
					kind: number, title: "Busiest part", unit: "percentunit", width: quarter, marks: badAt(0.7, 0.9),
					queries:     []query{{load, ""}},
					description: "Utilization of the busiest part, over the last 10 s.",
				},
				{
					kind: number, title: "Bottleneck", unit: "none", width: quarter,
					queries: []query{{bottleneck + " == 1", "{{part}} {{server}}"}},
					description: "1 for the part that saturates first as the load grows: the processor, the workers, " +
						"or a server. Empty without load.",
				},
				{
					kind: number, title: "Capacity", unit: "reqps", width: quarter, queries: []query{{capacity, ""}},
					description: "The load at which mcmw saturates, by the model. Empty without load.",
				},
				{
					kind: number, title: "Workers", unit: "none", width: quarter,
					queries: []query{
						{over("sum", of("mcmw_workers")), "configured"},
						{over("sum", of("mcmw_model_useful_workers")), "useful"},
					},
					description: "More workers than the useful number do not help, because then another part is the " +
						"limit. 0: unknown, without load.",
				},
			}},
			{"Utilization", []panel{
				{
					kind: lines, title: "Utilization by part", unit: "percentunit", width: half,
					queries: []query{utilization},
					description: "Utilization of each part over the last 10 s, by the model: the highest of all " +
						"instances.",
				},
				{
					kind: lines, title: "Load and capacity", unit: "reqps", width: half,
					queries: []query{
						{perSecond("", "mcmw_arrivals_total"), "offered"},
						{answered(""), "answered"},
						{capacity, "capacity"},
					},
					description: "Requests per second offered and answered, and the rate at which the first part " +
						"saturates, by the model.",
				},
				{
					kind: lines, title: "Busy workers", unit: "percentunit", width: third,
					queries: []query{{perSecond("instance", "mcmw_worker_busy_seconds_total") + " / " +
						over("sum instance", of("mcmw_workers")), "{{instance}}"}},
					description: "Share of the workers that are serving requests, measured.",
				},
				{
					kind: lines, title: "Processors used", unit: "short", width: third,
					queries:     []query{{perSecond("instance", "process_cpu_seconds_total"), "{{instance}}"}},
					description: "Number of processors that mcmw uses.",
				},
				{
					kind: lines, title: "Requests per round", unit: "short", width: third,
					queries: []query{{classicMean("instance", "mcmw_worker_round_requests"), "{{instance}}"}},
					description: "Mean number of requests that a worker takes at a time. It grows with the load, up " +
						"to --depth.",
				},
			}},
			{"Saturation", []panel{
				{
					kind: lines, title: "Requests waiting and in service", unit: "short", width: half,
					queries:     []query{{sampled("", "queue"), "waiting"}, {sampled("", "serving"), "in service"}},
					description: "Mean numbers, sampled every 10 ms.",
				},
				{
					kind: lines, title: "Queues", unit: "percentunit", width: half,
					queries: []query{{
						over("max queue", of("mcmw_queue_length")+" / "+of("mcmw_queue_capacity")),
						"{{queue}}",
					}},
					description: "Fill level of the fullest queue. At 100 % mcmw stops reading from its clients, or " +
						"sheds requests.",
				},
				{
					kind: lines, title: "Time in the queue", unit: "s", width: half, log: true,
					queries: []query{
						{quantile(0.5, "", "mcmw_request_stage_duration_seconds", `stage="queue"`), "p50"},
						{quantile(0.99, "", "mcmw_request_stage_duration_seconds", `stage="queue"`), "p99"},
					},
					description: "Time that requests wait for a worker.",
				},
				{
					kind: stack, title: "Servers that workers wait for", unit: "short", width: half,
					queries:     []query{{perSecond("server", "mcmw_worker_wait_seconds_total"), "{{server}}"}},
					description: "Mean number of workers blocked waiting for a server's reply.",
				},
			}},
			{"Errors and the process", []panel{
				{
					kind: lines, title: "Connections ended by mcmw", unit: "short", width: third,
					queries: []query{{
						perSecond("reason", "mcmw_connections_closed_total", `reason!~"client|quit"`),
						"{{reason}}",
					}},
					description: "Per second. refused: the limit on connections was reached; slow: the client did " +
						"not read its replies; protocol: the stream could not be kept in sync, or a limit was " +
						"exceeded; idle: no request arrived for longer than allowed.",
				},
				{
					kind: lines, title: "Not served, not logged", unit: "short", width: third,
					queries: []query{
						{perSecond("", "mcmw_abandoned_requests_total"), "client gone"},
						{perSecond("", "mcmw_request_log_dropped_total"), "log line dropped"},
					},
					description: "Per second: requests whose client was gone before a worker took them, and request " +
						"log lines dropped because the disk was too slow.",
				},
				{
					kind: lines, title: "Memory", unit: "bytes", width: third,
					queries:     []query{{of("process_resident_memory_bytes"), "{{instance}}"}},
					description: "Resident memory.",
				},
			}},
		},
	}
}
