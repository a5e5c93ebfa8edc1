// Package remote starts programs on another host, over the standard input and output of one command that reaches it,
// such as `ssh HOST mcmwlab agent serve` or `kubectl exec POD -- mcmwlab agent serve`.
//
//	lab                                             host
//	Conn: Start, FreePort, Clock ---- calls ----> Serve: starts and stops programs
//	      Process: output, end   <--- answers ---
//
// The calls are JSON-RPC (net/rpc/jsonrpc). One connection serves all programs of a host: it takes one login, and no
// limit on the number of sessions matters. When it ends, for whatever reason, the host kills every program that it has
// started. So nothing stays behind when the lab is killed or the network fails.
package remote
