// Package model builds queueing models of the middleware from a record's measurements and says how well they predict them.
//
//	record -> Read -> Data (points) -> Models -> Prediction per point -> Report; figures
//	                                -> Own    -> Predict, Meet
//
// Four of the models are those of published reports about such middlewares, by their stated choices: M/M/1, M/M/m and networks of
// queues of one class (the 2018 report, section 7) and of classes (the 2016 report, section 3). One is the same M/M/m with as many
// customers as there are clients, one the same network with what clients and hosts do measured under load. The last is our own, of
// service times that depend on how much is in service; see Own.
//
// Units are base units: seconds, requests per second, ratios. The mathematics is that of package queueing; batches are
// simulated by package simulate.
package model
