// Package middleware assembles the stages that a request passes between a memcached client and memcached servers.
//
//	clients             net stage                      queue                   worker pool                            servers
//	          accept
//	  conn ------> reader goroutine ---.                            .--> worker goroutine
//	                 receive, decode   |     +---------------+      |      take      up to depth requests; checks of earlier writes
//	  conn ------> reader goroutine ---+---> | bounded chan  | -----+      plan      key locks; calls (package plan)
//	                 stamp, queue      |     |   of batches  |      |      send      one write per server -------------> memcached
//	  conn ------> reader goroutine ---'     +---------------+      |      collect   replies, server by server <------ memcached
//	    ^                                                           |      answer
//	    |                                                           '--> worker goroutine, its own connections
//	    '--------------- one write per batch and round ----------------------'
//
//	where a request waits     for what                                      who owns it
//	reader, awaitAnswer       its connection's previous batch               the reader
//	reader, Put               room in the queue; the exchange of cores      the reader
//	queue                     a worker                                      nobody
//	worker, next              a batch; with checks to do, a millisecond     the worker
//	worker, admit             key locks; on a detour, a server or its mark  the worker
//	worker, collect           the servers' replies and connections            the worker
//	client, Stall             the client to read                            a goroutine of the connection
//
//	created          enqueued                     dequeued              sent          received        replied
//	   |------ net ------|--------- queue -----------|------ worker ------|--- server ----|---- reply ----|
//
// # The reader
//
// The reader goroutine of a connection is a loop (conn.serve in netstage). Brackets say what it waits for:
//
//	.--> [ bytes: the runtime's poller ]                  it holds no buffer, or the beginning of a request
//	|    [ memory, for a request above 16 KiB: budget ]
//	|      receive: a system call, into a pooled buffer   created
//	|      decode: a batch, which owns the buffer
//	|    [ the batch before: worker -> conn.answered ]
//	|      serveHot: the values are in memory             answered; the batch goes nowhere
//	|      stamp                                          enqueued
//	|    [ the gate: closed while Apply replaces the core ]
//	|    [ room in the queue ]
//	|      put: reader -> queue -> worker                 the batch and its bytes are the worker's
//	'------'
//
// The gate (queue.Entrance) is entered by the reader, and left by whoever has the batch in the end: the worker that answers it, or that
// hands it to the goroutine of a slow client, which enters again. A reply without anything left to decode makes the reader wait for
// bytes at once, if the read said that there were no more; otherwise it reads again, which also shows that a client is gone.
//
// # What travels
//
// The complete requests that one read of a connection brought, up to 256, are a batch, the element of the queue. The reader
// reads into a pooled buffer, and the requests of the batch point into it; a request's bytes are written to the servers from
// there without being copied (except for pieces of up to 256 bytes, which are copied next to each other, because that costs
// less than another entry of a writev). The buffer belongs to the reader until the batch is queued, then to the worker that
// takes it, which frees it at the end of its round. A server's reply is read into the worker's buffer for that server and
// written to the client from there.
//
// A worker takes up to depth waiting requests at a time: that is a round. If it had to wait for the first batch, it yields
// to the readers that are ready before it looks for more, unless the depth is 1. It plans the requests in order, writes once
// per server, reads the replies server by server, and answers each client with one write as soon as all of the client's
// requests of the round are complete. With depth 1 it is the synchronous worker: one request in service. A batch longer than
// the depth takes several rounds of the same worker.
//
// A get joins an equal one that is planned in the round already, unless what is planned between them may change the key: one call's reply
// then answers both, and all others that join. None of them can tell, because all were waiting when the call was sent.
//
// # A get and a replicated set, function by function
//
//	netstage  conn.serve     receive reads, nextBatch decodes, queue waits for the batch before and puts this one into queue.Entrance
//	worker    Run            take takes batches; add calls admit and plan for each request
//	          admit          Planner.Locks: a get waits while another worker writes its key; a set holds the key's stripe to the end of the round
//	          plan           Planner.Plan: a get is one call (planRead chooses the server), a set one to each replica (planWrite)
//	          send           one write for each server; where a connection is needed first, a goroutine makes it (Conn.Begin)
//	          collect        sends what waited for a connection (awaitConnection); parse gives each element of a reply to Planner.Element, a complete one to Planner.Done
//	          settle         Planner.Settle: done; or another step, which Next plans: a get of a failed server asks another one, a set deletes the key
//	                         where a replica answered otherwise (replica.Decide)
//	          answer         Planner.Answer puts the reply together, Client.Reply writes it; Finish lets the reader queue its next batch. A set that a server
//	                         missed is left to that server's detour until it is known (leaveUnmarked, awaitMarked)
//	          endRound       releases buffers, batches and the stripe
//
// # Order
//
//  1. Replies come in the order of a connection's requests, and a request sees the effects of the earlier ones: a
//     connection has at most one batch between being queued and being answered, so that its batches never overtake each
//     other, whatever the number of workers. Within a batch the requests to one server use one connection, in the
//     client's order. A cas with several replicas needs two steps and therefore ends its round: the requests after it in
//     the batch are sent when both are done.
//  2. The writes of one key are applied in one order on all its replicas. A worker holds the key's lock (a stripe of
//     package keylock) from before it writes until every replica has answered; so no other worker writes or reads the key
//     while some of the replicas have the write and others do not. While it has other requests in service, a worker only
//     tries to lock: requests whose lock is taken are left for its next round, at the start of which it waits while it
//     holds nothing. Several writes of one key may be in one round: they use the same connections in the same order. A
//     request for a key that an earlier request of its batch reads waits for the next round: the read may have to be
//     repeated on another server, and must then see neither more nor less than it would have seen first. Keys are locked
//     independently, so work on different keys stays parallel; the price is in docs/replication.md.
//  3. A byte that answers one request never reaches another: a worker matches replies to requests by their order on the
//     connection, checks that each fits its request (a VALUE must name a key that was asked for), and closes the
//     connection at a timeout, an unexpected byte, or a byte too many.
//     Writes that this server answered in the same round count as missed: its replies may have belonged to other requests.
//
// # Replicas
//
// Package plan decides what is asked of which server and what follows from the replies; it has no socket and no clock. A write
// goes to every replica of its key, and the client is answered when all of them have answered or failed. Package replica
// decides from the answers, and from how many must agree (Options.Ack), what the client is told and which replicas must be
// repaired: the key is deleted there, under the same lock, before the client is answered. A conditional write
// (cas, or a meta command with a cas) is compared on the key's first server alone, which also answers every gets; once
// stored there it is copied to the others in a second step of the same round.
//
// Where other middlewares write the same servers (Options.Writers), locks are not enough: each store has a version of its own as its cas,
// the first server decides all that depends on the item, and behind each store a check compares the versions on its servers, and deletes
// copies that differ. The planner keeps the checks from round to round. They gather for a millisecond, in which a later store of a key
// takes the place of its check, and go behind a round's calls, as one call to each server. A worker without requests gives them a round of
// their own then, before it waits for a slot, and before it ends. They hold no key lock and appear in no stage.
//
// # Hot keys
//
// With Options.HotKeys serve a reader answers a batch of gets itself if hotkeys.Values has all their values. Otherwise it marks a get whose key was
// asked for shortly before as one whose reply is wanted: the worker asks its server how long the item lives, too, and gives the reply to hotkeys.Values.
// A worker bars the value of a key before it plans a write of it, until the end of the round; what a set has stored then takes its place.
//
// # Failures
//
// A server is up, stale or down (backend.State). A write that a server did not acknowledge makes it stale: it is written to,
// but serves no reads. Consecutive failures make it down: requests fail at once, and keys stay placed as they are. One
// prober goroutine per server brings it back: it probes with growing pauses until the server answers several times in a row,
// deletes on it the keys whose writes it missed (or flushes it, if there are too many to remember), and marks it up. A read
// that fails on a server is planned again on the key's other servers, in a second step of the same round and within the same
// timeout; of several keys only those that no server answers are reported, as an error and never as misses.
//
// What the next start must know is kept on the servers (backend.Records, package marker): which servers missed writes, and
// where keys were. The first write that a server missed is answered when this is on enough servers. At the start, and when it is
// reached for the first time, a server is judged by these records: it is trusted, or flushed, or keys are deleted on it. With several writers and Options.Ack other than all, middlewares heed each other's marks while they run (marker.Fleet,
// Records.Watch): a server that is up may be barred from reads, and such a write is answered when all bar the server.
//
// If a middleware was killed, replicas may differ for good. A sweep in the background (package sweep), at the next start and
// every Options.SweepEvery, compares them, and deletes copies that differ under the key's lock.
//
// A goroutine of a connection makes it. Meanwhile the worker, which sends on it and nobody else, reads what other servers reply: requests that don't need
// the connection are answered. What it cannot wait for any longer fails; the attempt goes on for a later round.
//
// A server that has not replied for Options.StallAfter, or not let itself be connected to, is suspect, until it answers or is down. The worker that detected it
// sends the reads that wait for it to other servers, releases the key locks of finished requests, passes on requests that it
// has not begun, and starts a stand-in in its lane, so that as many workers serve the lane as before. Requests that need a
// suspect go to its detour, a lane with one patient worker, and are answered at the latest at their deadline; so do requests
// that need a key lock held by one that waits for a suspect, reads that must wait until a server is clean, and writes that a server missed, which
// the servers have done, until that is known. No other worker waits for one of these.
//
// # Pools of servers
//
// With Options.Pools the servers are in several named pools, and a key's longest prefix among Options.Routes says in which it is. There is one
// list of servers, one pool behind the other, and one router for all of it (route.Compose); so a round, an order, a worker and its connections
// are the same for all pools, and a multi-get over several is still one step. What is decided for a key or a server is its pool's: the number of
// replicas, Ack, Writers. So are the records on the servers and the majority that they need, the phases of a change, and the sweep (tier). A
// server is in one pool. Which keys a pool has is part of its placement (route.Share): keys that it gets are treated as those of a server that
// joins. Reads may go by a router of their own (route.Router.ForReads), which sends them to other pools: each holds what it was sent, so that is no part of
// a placement. A change of routes that gives keys to other pools goes through the phases of a change of placement where others may write the pools (rerouting): such
// a key has a router of two pools (route.Router.Reroute), which writes one of them and deletes on the other.
//
// A pool's keys migrate to another pool in phases that the clock begins and ends (Migration, route.MigrationPhase): the router of such a key is one of both
// pools, so that for a write they are one set of replicas. One middleware copies what nobody writes (sweep.Copier). In a warm-up a read looks in the
// new pool first, and its next step asks the old one for what is missing there; each middleware copies what its own reads missed (Copier.Fill). Servers of one
// pool are warmed up the same way: of each key's servers these are the new pool, and the others the old one (route.Router.Divide).
//
// A pool may have a gutter, another pool that stands in for its servers (package plan). The planner is told by server whether all middlewares bar it from
// reads (backend.Server.Away), and for how long the gutter may hold keys of it (OpenUntil). The first is known by the marks above, the second is time: it ends
// GutterTTL and some seconds after the server was barred, or the core replaced. A gutter's placement is that of all keys, so that what moves there is deleted like
// the keys of any other pool. A pool that gets another gutter, or keys, has its gutters closed meanwhile (rerouting, route.Options.Closed): neither the new one nor the one
// before is used, and writes delete in both. In the last phase nobody uses the one before any more; what the new one holds is deleted then.
//
// # Large values
//
// In a pool with large values (plan.Large) a value above the servers' item size is stored in chunks, behind a head that is the key's item (package large).
// A write sends the chunks in its first step and the head in the next; a read asks for the chunks when it has the head, from the same server.
//
// # Shadows
//
// With Options.Shadows requests of a pool are copied to another one (package shadow) by the worker that answers them, just before it does. The other
// pool is served by a middleware of its own without clients (shadowed): nothing of it is waited for here, and nothing here waits for it but the end.
//
// # Queues and workers
//
// With PoolShared all workers serve one queue. With PoolPerServer every server has a read queue with workers of its own and
// a write queue with one writer; a write belongs to its key's first server, a read to the server that is to answer it. A
// batch waits in the queue of its next request and moves from queue to queue until it is answered, so the order within its
// connection is kept. The writer sends all waiting writes, to all their replicas, before it reads the first reply. A slow
// server delays the requests that need it; those in other servers' queues are not affected.
//
// A client that does not read its replies occupies no worker: what its socket doesn't take is handed to a goroutine of the
// connection, which puts the rest of the batch back on the queue once the client has read. If the client is gone by then, or
// when its next batch is to be queued, what it asked for is dropped. A worker waits only for its servers, and for key locks whose holders wait for theirs.
//
// # Changing options while clients are served
//
// Apply makes a new core: router, queues, workers with connections. The entrance to the queues (queue.Entrance) counts the
// batches between being queued and leaving the workers; once there is none, and before the next one is let in, the new one
// replaces the old one. So no two requests are ever served by two placements at once. The servers' state, the key locks and
// the counts are kept. A server that is added is cleaned before it serves reads. A server that only has another address needs none
// of this: its connections are made again.
//
// Other middlewares learn of another placement earlier or later. Therefore it is put in force in phases (change), each with a core of
// its own, whose router says where a key is read and written, and where each write deletes it (route.Phase). New holders are
// cleaned in the first phase, in the background. A middleware that is alone, or takes no phases, replaces the placement at once: when a key
// that has moved is written, its previous holders are told (backend.Server.LeaveBehind), and delete it before they may hold it again.
//
// # Memory
//
// The memory that clients can use is bounded: a connection has one batch under way and one that was read meanwhile; buffers
// above 16 KiB, and replies that slow clients have not read, are counted over all connections (Options.ClientMemory). A
// reader that finds no memory for a large request waits; no complete request waits with it.
//
//	                                       .---- the next portion, when the client has taken this one ---.
//	                                       v                                                             |
//	get of 150 MB ---> batch queue ---> worker: keys for about 1 MiB ---> servers ---> values ---> client's socket
//	                                       |
//	                                       '--- values beyond 4 MiB in a round are dropped: their keys are the next portion's
//
// A reply of any size passes through in portions, sized by the average size of values: a retrieval with more keys ends its
// part of the round, and its batch goes back to the queue, through its slow client if need be, to continue at the next key.
// Values beyond the expected size are dropped and requested again. A read is never repeated after a write of its key: its
// values are kept, or it fails beyond 16 MiB. A value larger than Limits.MaxValue is not held, whatever the server announces:
// its bytes are dropped as they come, and the request gets an error.
//
// # Starting and stopping
//
// Run tries to reach every server, judges those that it reached, starts the workers, then accepts clients; a server that was
// not reached is down, and its prober brings it into service. Ready is closed when enough servers are up for Options.Ready.
// Stopping follows the data: the listeners close, the readers end when their clients' requests have been answered and the
// replies received, or half of Options.DrainTimeout is over and what they have read is answered, the queue closes, the
// workers end when it is empty and close their connections, the probers wait for what was sent on connections that were given
// up; last, the servers are told that nothing is under way any more, if that is so. After a middleware that ended otherwise, a
// start waits for what the servers may still hold of it.
package middleware
