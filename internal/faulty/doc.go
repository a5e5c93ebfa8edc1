// Package faulty is servers that misbehave on purpose: a Server of which the caller writes every byte, a Proxy in front of a
// real server that passes every byte on until it is told to do harm, and a name server whose answers change. The tests use them through package mctest, the
// lab in its fault suite.
package faulty
