// Package lab is the parent of the lab's packages, which put load on systems, run experiments, and analyse the
// measurements. It has no code, and is a module of its own, so that the middleware depends on nothing that only
// measurements need.
//
//	cmd/mcmwlab         the command line
//	experiments         the experiments of the reports, what these found, and the loads of bench
//	bench               which of several systems is faster
//	load                load generator
//	sample              statistics of repeated measurements; pure
//	frame               runs of a record grouped by point, with estimates; pure
//	check               checks of measurements; pure
//	capacity            highest load within a quality of service; pure
//	compare             comparison of two records; pure
//	condition           the language of conditions on measurements; pure
//	effects             factorial analysis of a record
//	factorial           designed experiments: effects, intervals, analysis of variance; pure
//	foreign             import of other programs' measurements
//	memtier             runs memtier_benchmark, and reads its outputs
//	paper               published reports beside their repeated experiments, and verdicts on their findings
//	table               pages of texts, tables and figures in several formats
//	queueing            queues, networks and laws; pure
//	simulate            discrete-event simulation of workers that serve batches
//	model               queueing models of a record, and predictions
//	netspace            network namespaces
//	process             the processes that the lab starts
//	report              page, figures and tables of a record
//	plot                figures as SVG
//	experiment          experiment files: points, repetitions, order of runs; pure
//	agent               sampling and path measurement on hosts
//	kernel              the kernel's information about the machine and processes
//	testbed             testbeds, and the testbed local
//	testbed/remote      programs on another host, over one connection
//	testbed/ssh         hosts reached over ssh
//	testbed/kubernetes  a cluster
//	testbed/vm          emulated machines
//	cgroup              control groups, and their removal
//	collect             turns programs' outputs into a run of a record; pure
//	runner              makes the runs of an experiment
//	record              records of measurements
package lab
