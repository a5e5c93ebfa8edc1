// Package model builds queueing models of the middleware from the measurements of a record, and tests how well they
// predict them.
//
//	record -> FromRuns -> Data (points) -> Models -> Prediction per point -> Report; figures
//	                                -> Own    -> Predict, Meet
//
// Four of the models are those of published reports about such middlewares: M/M/1, M/M/m, a network of queues with one
// class (the 2018 report, section 7), and one with several classes (the 2016 report, section 3). Two are variants:
// M/M/m with a limited number of clients, and the network with the time outside the middleware measured under load. The
// last is the lab's own: its service times depend on the number of requests in service; see Own.
//
// Values are in base units: seconds, requests per second, ratios. Symbols are those of package queueing, which has the
// mathematics. Package simulate simulates batches.
package model
