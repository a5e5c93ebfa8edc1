// Package faulty has servers that misbehave on purpose: a Server whose replies the caller writes byte by byte, a Proxy
// that forwards the bytes of a real server until a fault is injected, a Liar that changes the replies of a real
// memcached, and a DNS server whose answers change. Tests use them through package mctest, and the lab uses them in its
// fault suite and to compare proxies.
package faulty
