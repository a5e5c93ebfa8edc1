// Package faulty has servers that misbehave on purpose: a Server whose every byte the caller writes, a Proxy in front of a
// real server that forwards every byte until a fault is injected, and a name server whose answers change. The tests use them through package mctest, the
// lab in its fault suite.
package faulty
