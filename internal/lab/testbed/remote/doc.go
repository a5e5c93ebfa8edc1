// Package remote starts programs on another host, over the standard input and output of one command that reaches it, such as
// `ssh HOST mcmwlab agent serve` or `kubectl exec POD -- mcmwlab agent serve`.
//
//	lab                                            host
//	Conn: Start, FreePort, Clock -- requests --> Serve: starts and stops programs
//	      Process                <-- events ----
//
// Both directions are lines of JSON. There is one connection for all programs of a host: one login, no limit on the number of
// sessions, and when it ends, for whatever reason, the host's side kills every program that it has started. So nothing stays
// behind when the lab is killed or the network is cut.
package remote
