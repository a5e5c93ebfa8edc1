// Package paper recomputes the tables of five published studies of memcached and its middlewares from what they print
// themselves, or from the raw data they published: factorial designs, queueing models, operational laws.
//
// The figures are those of the reports, with their authors and tables (data). Each check recomputes one of them and says
// whether it agrees: rounded as printed; within the effect of the printed inputs' rounding; or not, and then why, as far as
// it is known.
package paper
