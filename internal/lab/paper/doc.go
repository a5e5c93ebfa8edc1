// Package paper recomputes the tables of five published studies of memcached and its middlewares from what they print
// themselves, or from the raw data they published: factorial designs, queueing models, operational laws.
//
// A report is a file, experiments/reports/NAME.yaml: what it prints, what of it is recomputed and how (Recomputation), and the tables
// that its repeated experiments are set beside (Beside). Each check recomputes one figure and says whether it agrees: rounded as
// printed; within the effect of the printed inputs' rounding; or not, and then why, as far as it is known.
package paper
