// Package statlog writes the statistics log (one window per line) and the request log (one request per line) as JSON,
// for analysis by programs. docs/observability.md describes every field.
package statlog
