// Package statlog writes the statistics log (one window per line) and the request log (one request per line) as JSON, to be
// analysed by programs. docs/observability.md describes every field.
package statlog
