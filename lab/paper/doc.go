// Package paper recomputes the tables of five published reports on memcached and its middlewares from their printed numbers or their
// published raw data: factorial designs, queueing models, operational laws.
//
// A report is a file, experiments/reports/NAME.yaml. It has the printed tables and numbers, the checks that recompute them
// (Recomputation), and the tables that are compared with repeated experiments (Beside). Each check recomputes one printed number. Its
// Verdict says whether they agree; if not, its note says why, if that is known.
package paper
