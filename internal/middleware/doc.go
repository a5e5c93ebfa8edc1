// Package middleware assembles the stages that a request passes between a memcached client and memcached servers.
//
//	clients                 net stage               queue              worker pool                       servers
//	                accept
//	  conn ------> reader goroutine ---.                           .--> worker --- conn to server 1 ---> memcached
//	                 read, parse       |     +---------------+     |      plan     conn to server 2 ---> memcached
//	  conn ------> reader goroutine ---+---> | bounded chan  | ----+      send     conn to server n ---> memcached
//	                 stamp, enqueue    |     |   of batches  |     |      collect
//	  conn ------> reader goroutine ---'     +---------------+     '--> worker --- its own connections
//	    ^                                                                 |
//	    '------------------------- reply, one write per batch and round --'
//
//	created          enqueued                     dequeued              sent          received        replied
//	   |------ net ------|--------- queue -----------|------ worker ------|--- server ----|---- reply ----|
//
// # What travels
//
// The complete requests that one read of a connection brought, up to 256, are a batch, the element of the queue. The reader
// reads into a pooled buffer, and the requests of the batch point into it; a request's bytes are written to the servers from there
// and not copied in between (pieces of up to 256 bytes are, next to each other, because that is cheaper than another entry
// of a writev). The buffer belongs to the reader until the batch is queued, then to the worker that takes it, which gives
// it back at the end of its round. A server's reply is read into the worker's buffer for that server and written to the
// client from there.
//
// A worker takes up to depth waiting requests at a time: that is a round. If it had to wait for the first, it lets the readers
// that are ready put theirs before it looks for more, unless the depth is 1. It plans them in order, writes once per server,
// reads the replies server by server, and answers each client with one write as soon as all of the client's requests of
// the round are complete. With depth 1 it is the synchronous worker: one request in service. A batch longer than the depth
// takes several rounds of the same worker.
//
// # Order
//
//  1. Replies come in the order of a connection's requests, and a request sees the effects of the earlier ones: a
//     connection has at most one batch between being queued and being answered, so that its batches never overtake each
//     other, whatever the number of workers. Within a batch the requests to one server travel over one connection in the
//     client's order. A cas with several replicas, which needs two steps, ends its round, so that what follows it in the
//     batch is sent when both are done.
//  2. The writes of one key are applied in one order on all its replicas. A worker holds the key's lock (a stripe of
//     package keylock) from before it writes until every replica has answered; so no other worker writes the key, or reads
//     it, while some of the replicas have the write and others not. A worker takes locks without waiting while it has
//     other requests in service: what it can't have is served in its next round, which waits for it while it holds nothing.
//     Several writes of one key may be in one round: they go down the same connections in the same order. What names a
//     key that an earlier request of its batch reads is for the next round: a read may have to be asked of another server,
//     and nothing that it must not see, or that must not miss what it sees, is under way meanwhile. The shared queue and
//     parallel work on different keys stay; the price is in docs/replication.md.
//  3. A byte that answers one request never reaches another: a worker matches replies to requests by their order on the
//     connection, checks that each fits its request (a VALUE must name a key that was asked for), and closes the
//     connection at a timeout, an unexpected byte, or a byte too many.
//     The writes that such a server answered in the round count as missed: its replies may have been about others.
//
// # Replicas
//
// A write goes to every replica of its key, and the client is answered when all of them have answered or failed. Package
// replica decides from the answers, and from how many must agree (Options.Ack), what the client is told and which replicas
// must be repaired: the key is deleted there, under the same lock, before the client is answered. A conditional write
// (cas, or a meta command with a cas) is compared on the key's first server alone, which also answers every gets; once
// stored there it is copied to the others in a second step of the same round.
//
// # Failures
//
// A server is up, stale or down (backend.State). A write that a server did not acknowledge makes it stale: it is written to,
// but serves no read. Failures in a row make it down: requests fail at once, and keys stay placed as they are. One prober
// goroutine per server brings it back: it probes with growing pauses until the server answers several times in a row,
// deletes on it the keys whose writes it missed (or flushes it, if they are too many to be remembered), and puts it up. A
// read that a server fails is planned again on the key's other servers, in a second step of the same round and within
// the same timeout; of several keys only those that no server answers are reported, as an error and never as misses.
//
// What a later start has to know is on the servers (backend.Records, package marker): which servers missed writes, and where
// keys were. The worker that answers the first write which a server missed waits until that is on enough of them. At the start, and
// when it is reached for the first time, a server is judged by what was found: it is trusted, flushed, or keys are deleted on it.
//
// If the middleware before was killed, replicas may differ for good. A sweep in the background (backend.Sweep) compares them,
// and deletes what differs under the key's lock.
//
// A server that owes a reply for longer than Options.StallAfter is suspect, until it answers or is down. The worker that found
// out gives the reads that wait for it to other servers, gives back the key locks of what is through, passes on what it
// has not begun, and lets a stand-in take its place in the lane, so that the lane is served by as many as before. What
// needs a suspect goes to its detour, a lane with one patient worker, which is answered at the request's deadline at the
// latest; so does what needs a key lock that waits for a suspect, and a read that has to wait until a server is clean.
//
// # Pools
//
// With PoolShared all workers serve one queue. With PoolPerServer every server has a read queue with workers of its own and
// a write queue with one writer; a write belongs to its key's first server, a read to the server that is to answer it. A
// batch stands in the queue of its next request and goes from queue to queue until it is answered, so that the order
// within its connection is the same. The writer sends all the writes that wait, to all their replicas, before it reads the
// first reply. A slow server holds up the requests that need it; those of other servers' queues go on.
//
// A client that does not read its replies costs no worker: what its socket doesn't take is handed to a goroutine of the
// connection, which puts the rest of the batch back on the queue once the client has read. A worker waits for nothing but
// its servers, and key locks that others hold while they wait for theirs.
//
// # Other options while clients are served
//
// Apply makes a new pool: router, queues, workers with connections. The entrance to the queues (queue.Entrance) knows every
// batch between being queued and leaving the workers; once none is there, and before the next is let in, the new
// pool takes the place of the old one. So no two requests are ever served by two placements at once. The servers' state, the
// key locks and the counts stay. A server that joins is cleaned before it serves reads. Of a key that moves, the
// servers that held it are told when it is written elsewhere (backend.Server.LeaveBehind), and drop it before they may
// hold it again. A server that only has another address needs none of that: its connections are made anew.
//
// # Memory
//
// What clients can take is bounded: a connection has one batch under way and one that was read meanwhile; buffers above
// 16 KiB, and replies that slow clients have not read, are counted over all connections (Options.ClientMemory). A reader
// that finds no memory for a large request waits; no complete request waits with it.
//
//	                                       .---- the next portion, when the client has taken this one ---.
//	                                       v                                                             |
//	get of 150 MB ---> batch queue ---> worker: keys for about 1 MiB ---> servers ---> values ---> client's socket
//	                                       |
//	                                       '--- values beyond 4 MiB in a round are dropped: their keys are the next portion's
//
// A reply of any size passes through in portions, by what values take on average: a retrieval with more keys ends its part of the round,
// and its batch goes back, through its slow client if need be, to be served from the next key on. What comes beyond expectation
// is dropped and asked for again. A read is never repeated behind a write of its key: it is kept, or fails beyond 16 MiB.
//
// # Start and stop
//
// Run tries to reach every server, judges those that it reached, starts the workers, then accepts; a server that was not reached is down, and its prober
// brings it into service. Ready is closed when those that are up are enough for Options.Ready. It stops in the order of the data: the
// listeners close, the readers end when what their clients sent is answered and received, the queue closes, the workers
// end when it is empty and close their connections; last, the servers are told that nothing is under way any more.
package middleware
