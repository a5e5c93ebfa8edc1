// Package clients runs client libraries of memcached against mcmw, with memcached itself as the control, and records
// what they do while servers fail, in docs/results/clients.md.
//
// A program for each language is a shell around its libraries. It prints "ready", then reads a command a line from its
// standard input, and answers each with one line, the result in the form of its language, or "error: " and the error's
// text:
//
//	get KEY, multi KEY..., gets KEY, cas KEY VALUE, set|add|replace KEY VALUE [EXPIRY], append KEY VALUE, incr KEY N, touch KEY EXPIRY, delete KEY,
//	flush, version
//
// A VALUE *N is N bytes. cas uses the token of the last gets of the key. A library that lacks a command answers
// "unsupported". `.ci/deps clients` installs the libraries, at the exact versions in this directory, into
// ~/.cache/mcmw/clients.
package clients
