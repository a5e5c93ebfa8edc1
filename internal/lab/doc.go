// Package lab holds the lab: programs that put load on systems, run experiments, and analyse what these measured. This is the map of its
// packages; it has no code of its own.
//
//	load                the load generator
//	faults              servers that fail under a verified load
//	sample              statistics of repeated measurements; pure
//	check               checks of measurements; pure
//	capacity            the highest load within a quality of service; pure
//	compare             two records side by side; pure
//	effects             factorial analysis of a record
//	factorial           designed experiments: effects, intervals, analysis of variance; pure
//	foreign             imports what other programs measured
//	memtier             runs memtier_benchmark, and reads its outputs
//	paper               published tables, recomputed
//	claim               findings of reports, decided from records
//	reproduce           a report's tables and findings beside its repeated experiments
//	table               tables as text, Markdown, LaTeX, HTML
//	queueing            queues, networks and laws; pure
//	simulate            workers that serve batches, event by event
//	model               models of a record, and predictions
//	netspace            network namespaces
//	process             the programs that the lab runs
//	report              page, figures and tables of a record
//	plot                figures as SVG over gonum/plot
//	experiment          experiment files: points, repetitions, order of runs; pure
//	agent               sampling and path measurement on hosts
//	kernel              what the kernel knows of machine and processes
//	testbed             where experiments run; this machine
//	testbed/remote      programs on another host, over one connection
//	testbed/ssh         hosts over ssh
//	testbed/kubernetes  a cluster
//	testbed/vm          emulated machines
//	cgroup              control groups, and their removal
//	collect             turns programs' outputs into a run of a record; pure
//	runner              makes the runs of an experiment
//	record              records
package lab
