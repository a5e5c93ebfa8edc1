// Package follow delivers the effects of a pool's writes to another pool, which follows it. No client waits for it.
//
//	worker, answer --> Follower.Wrote --> Ledger, one per server of the following pool --> deliverer --> that server
//	                                         ^                                               |
//	                                         '--------- unpaid: retried, or a delete --------'
//
// # Order
//
// A debt is a key, not a write: what is delivered is what the pool holds at that time, or a delete. So later writes of
// the key need no further debt, and a delivery is never older than the debt.
//
// Several middlewares may deliver one key. Each looks at the pool again after its copy, and delivers again if the pool
// then holds another version. So the last one to copy leaves what the pool holds.
//
// When the list of servers changes, a server that gets a key is owed it by the key's previous holder, which is owed its
// delete if it stays.
//
// # Losses
//
// If a connection breaks, a copy that was sent on it may be carried out later. Its debt becomes a delete, which is sent
// twice: once the server answers again, and when the copy can't arrive any more (Lateness).
//
// If the debts need too much memory, or a middleware was killed, the server is in doubt: it may lack any write since
// then. The doubt ends when all keys that the server holds have been delivered anew, or the server was flushed.
// Watch keeps on the servers of the followed pool since when writes may be missing; whoever finds this of a middleware
// that is gone takes over the doubt.
package follow
