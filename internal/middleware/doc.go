// Package middleware assembles the stages that a request passes on its way between a memcached client and the memcached
// servers.
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
//	where a request waits     for what                                         which goroutine waits
//	reader, awaitAnswer       its connection's previous batch                  the reader
//	reader, Put               room in the queue; the exchange of cores         the reader
//	queue                     a worker                                         none
//	worker, next              a batch; while checks are pending, at most 1 ms  the worker
//	worker, admit             key locks; on a detour, a server, mark or role   the worker
//	worker, collect           the servers' replies and connections             the worker
//	client, Stall             the client to read                               a goroutine of the connection
//
//	created          enqueued                     dequeued              sent          received        replied
//	   |------ net ------|--------- queue -----------|------ worker ------|--- server ----|---- reply ----|
//
// # The reader
//
// The reader goroutine of a connection is a loop (conn.serve in netstage). Brackets show where it waits:
//
//	.--> [ bytes: the runtime's poller ]                   it holds no buffer, or the beginning of a request
//	|    [ memory, for a request above 16 KiB: budget ]
//	|      receive: a system call, into a pooled buffer    created
//	|      decode: a batch, which owns the buffer
//	|    [ the previous batch: worker -> conn.answered ]
//	|      serveHot: the values are in memory              answered; the batch is not queued
//	|      stamp                                           enqueued
//	|    [ the gate: closed while Apply replaces the core ]
//	|    [ room in the queue ]
//	|      put: reader -> queue -> worker                  the batch and its bytes now belong to the worker
//	'------'
//
// The reader enters the gate (queue.Entrance) with each batch. The worker leaves it when it has answered the batch, or
// when it hands the batch to the goroutine of a slow client; that goroutine enters again. If a read left nothing to
// decode and a reply will be written, the reader goes back to the poller. Otherwise it reads once more, which also
// shows whether the client has disconnected.
//
// # What travels
//
// The complete requests that one read of a connection brings, up to 256, are a batch, the element of the queue. The
// reader reads into a pooled buffer, and the requests of the batch point into it. Their bytes are written to the
// servers from there without being copied. The exception is pieces of up to 256 bytes: they are copied next to each
// other, because that costs less than more entries of a writev. The buffer belongs to the reader until the batch is
// queued, then to the worker that takes it, which frees it at the end of its round. A server's reply is read into the
// worker's buffer for that server and written to the client from there.
//
// A worker takes up to depth waiting requests at a time: that is a round. With a depth above 1 it first yields to
// readers that are ready, if it had to take a batch from the queue, and then looks for more batches. It plans the
// requests in order, writes once per server, reads the replies server by server, and answers each client with one write
// as soon as all of the client's requests of the round are complete. With depth 1 it is the synchronous worker: one
// request in service. A batch longer than the depth takes several rounds of the same worker.
//
// A get joins an equal get that is already planned in the round, unless a request planned between them may change the
// key. One call then answers both, and any more that join. Clients cannot tell the difference, because all of these
// gets were waiting when the call was sent.
//
// docs/architecture.md follows a get and a replicated set from function to function.
//
// # Order
//
// docs/architecture.md has the rules. They hold for these reasons:
//
//  1. A connection has at most one batch that is queued and not yet answered, so its batches never overtake each other,
//     whatever the number of workers. Within a batch the requests to one server use one connection, in the client's
//     order. A request that takes two steps, such as a cas with several replicas, ends its round.
//  2. A worker holds a key's lock (a stripe of package keylock) from before it writes until every replica has answered.
//     So no other worker writes or reads the key while only some of the replicas have the write. While a worker has
//     other requests in service it only tries to lock: a request whose lock is held by another worker is left for the
//     next round, at the start of which the worker holds no lock and may wait. Several writes of one key may be in one
//     round: they use the same connections in the same order. A write of a key that an earlier request of its batch
//     reads waits for the next round: the read may have to be repeated on another server, and must then see neither
//     more nor less than it would have seen at first.
//  3. A worker closes a connection at a timeout, an unexpected byte or a surplus byte. Writes that this server answered
//     in the same round then count as missed, because their replies may have belonged to other requests.
//
// # Replicas
//
// Package plan decides what to ask which server and what follows from the replies, and package replica what the client
// is told and which replicas must be repaired. A repair deletes the key on the replica, under the same lock, before the
// client is answered.
//
// Where servers support it, and the server that decides can be another one later (pool.decidersMove), each store has a
// version of its own as its cas. Where other middlewares write the same servers (Options.Writers), locks are not
// enough: after each store a check compares the versions on its servers. WritersAuto is decided for each core, by what
// its servers support (decideWriters). Until one has answered, those that are down stay so, none is judged, and drive
// asks again (decideAgain); then the changes under way are joined as at the start (joinLate). The planner keeps the
// checks from round to round. They gather for a millisecond, in which a later store of the same key replaces its check,
// and are then sent after a round's calls, as one call per server. A worker without requests sends them in a round of
// their own when they are due, before it waits for a slot, and before it ends. Checks hold no key lock and appear in no
// stage.
//
// # Hot keys
//
// With Options.HotKeys serve, a reader answers a batch of gets on its own if hotkeys.Values has all their values.
// Otherwise it flags a get whose key was asked for shortly before: the worker then also asks the server how long the
// item lives, and gives the reply to hotkeys.Values. Before a worker plans a write of a key it bars the key's value in
// memory until the end of the round; a value that a set has stored then replaces it.
//
// # Who uses the cache
//
// A worker adds each key of its sample, which also finds the hot keys, with its result, bytes and response time to the
// use of the key's route, user and prefix (stats.Usage). There it also notes which items it has stored and deleted, of
// some keys, and which reads miss, to tell which items were evicted soon.
//
// # Failures
//
// One prober goroutine per server brings a server back that is stale or down (backend.State). What the next start must
// know is kept on the servers (backend.Records, package marker). With several writers and an Options.Ack other than
// all, middlewares respect each other's marks while they run (marker.Fleet, Records.Keep): a marked server is not read
// even if it is up, and a write that it missed is answered once every middleware has stopped reading it. Commands that
// depend on an item (incr, cas, add ..) wait until it is known which server no middleware replaces (package plan,
// elect.go).
//
// If a middleware was killed, replicas may stay different. A sweep in the background (package sweep), at the next start
// and every Options.SweepEvery, compares them and deletes copies that differ, under the key's lock.
//
// A server that returns without its keys stays stale until it has been refilled from the other holders of its keys
// (refill, sweep.Refiller). An item on the server says that it has (marker.RefilledKey). Its prober asks for this item,
// and looks in between find servers that lost their keys unnoticed. One middleware copies, to a server that is marked,
// so writes may reach source and target in any order: each copy is checked when all writes that were under way when it
// was added have ended. In Kubernetes a goroutine tells the server's pod when it is refilled (Refilled,
// discover.Gates).
//
// A goroutine of a server connection makes that connection. Meanwhile only the worker may send on it, and the worker
// reads the replies of other servers: requests that don't need the connection are answered. A request that cannot wait
// any longer fails; the attempt to connect continues for a later round.
//
// A server that has not replied, or not accepted a connection, for Options.StallAfter is suspect until it answers or is
// down. The worker that detects it sends the reads that wait for it to other servers, releases the key locks of
// finished requests, passes on requests that it has not begun, and starts a stand-in in its lane, so that as many
// workers serve the lane as before. A write that other servers have carried out does without the suspect, which has
// then missed it, if a mark can say so. Requests that need a suspect go to its detour, a lane with one patient worker,
// and are answered by their deadline. So do requests that need a key lock whose holder waits for a suspect, reads that
// wait until a server is clean, which they do only if that can be soon, and writes that are done except that a server
// which missed them is not yet marked. No other worker waits for any of these.
//
// # Pools of servers
//
// With Options.Pools the servers are in several named pools, and the longest prefix of a key among Options.Routes says
// which pool has it; otherwise there is one pool without a name. There is one list of servers, pool after pool, and
// one router for all of it (route.Router), with a route.Group for the keys of each pool. So a round, the order of
// replies, a worker and its connections are the same for all pools, and a multi-get over several pools is still one
// step. Decisions about a key or a server follow its pool: the number of replicas, Ack, Writers. The records on the
// servers and the majority that they need, the phases of a change, and the sweep are per pool as well (poolState).
// Which keys a pool has is part of its placement (route.Share): a server whose pool gets keys is treated like a server
// that joins. A record also names all pools: one that another pool's record lacks was absent, so that other pools had
// its keys (isAbsent). Reads may follow a router of their own (route.Router.ForReads). Each pool holds what was sent
// to it, so this is not part of the placement.
//
// Keys that go to another pool have a Group of both: while the routes change (rerouting, Router.Reroute), and while
// they migrate in phases that the clock begins and ends (Migration, route.Phase). As long as keys may be
// copied, the old pool answers a write before the new pool gets it (route.After). One middleware copies the keys that
// nobody writes (sweep.Copier). In a warm-up each middleware copies what its own reads missed (Copier.Fill).
//
// A pool may have a gutter: another pool that stands in for its servers (package plan). For each server the planner is
// told whether all middlewares have stopped reading it (backend.Server.Away), and until when the gutter may hold keys
// of it (OpenUntil). The first is known from the marks above. The second is a time: GutterTTL and some seconds after
// the server was last barred from reads, or the core replaced. While a pool changes its gutter, or gets keys, its
// gutters are closed (rerouting, route.Options.Closed): neither the new nor the previous one is used, and writes delete
// in both. In the last phase nobody uses the previous one any more; then what the new one holds of these keys is
// deleted.
//
// # Copies for other pools
//
// A pool may have recipients: other pools that get what its workers did, later. Each worker tells them of a request
// just before it answers (request.Recipient). Nothing here waits for them, except Run at its end (recipient). With
// Options.Shadows requests are copied to a pool (package shadow), which is served by a middleware of its own that has
// no clients (shadowed). With Options.Follows a pool follows another (package follow). In a pool with Holds, which
// follows one elsewhere, what was stored on a condition is deleted again if the key has a tombstone (package plan,
// hold.go).
//
// # Queues and workers
//
// With WorkersShared all workers serve one queue. With WorkersPerServer every server has a read queue with workers of
// its own and a write queue with one writer. A write goes to the writer of its key's first server, a read to the server
// that is to answer it. A batch waits in the queue of its next request and moves from queue to queue until it is
// answered, so the order within its connection is kept. The writer sends all waiting writes, to all their replicas,
// before it reads the first reply. A slow server delays the requests that need it; requests in other servers' queues
// are not affected.
//
// A client that does not read its replies occupies no worker: bytes that its socket doesn't accept are handed to a
// goroutine of the connection, which puts the rest of the batch back on the queue once the client has read. If the
// client has disconnected by then, or when its next batch is to be queued, its requests are dropped. A worker waits
// only for its servers, and for key locks whose holders wait for theirs.
//
// # Changing options while clients are served
//
// Apply makes a new core: router, queues, workers with connections. The entrance to the queues (queue.Entrance) counts
// the batches that are queued or in a worker. Once there are none, and before the next batch is let in, the new core
// replaces the old one. So no two requests are ever served by two placements at once. The servers' state, the key locks
// and the counts are kept. A server that is added is cleaned before it serves reads. A server that only has another
// address needs none of this: connections to it are made again.
//
// Other middlewares learn of a new placement earlier or later. Therefore it is applied in phases (change). Each phase
// has a core of its own, whose router says where a key is read and written, and where each write deletes it
// (route.Row). If another server is to decide commands that depend on a key's item, these miss in the phase before
// that. New holders are cleaned in the first phase, in the background, and the next phase waits for that (drive). Then
// one middleware copies to them the values of keys that move (sweep.Copier), before anyone reads them there.
// Middlewares announce their phases on the servers (board), so that none stops deleting on the previous holders while
// another may read these, and one that starts joins the others in their phase (join). Changes of routes go through the
// same phases: courseRows says for both what a middleware does in each. Migrations (migrating) have the same driver,
// but phases of their own, which go by the clock.
//
// A middleware that is the only writer, or uses no phases, replaces the placement at once: when a key that has moved is
// written, the write is noted for its previous holders (backend.Server.LeaveBehind), which delete the key before they
// may hold it again. Keys that a server has held only by a placement from before the start are deleted there first
// (regains).
//
// # Memory
//
// The memory that clients can use is bounded. A connection has one batch in service and one that was read meanwhile.
// Buffers above 16 KiB, and replies that slow clients have not read, are counted over all connections
// (Options.ClientMemory). A reader that finds no memory for a large request waits; no complete request waits with it.
//
//	                                       .---- the next portion, when the client has read this one ----.
//	                                       v                                                             |
//	get of 150 MB ---> batch queue ---> worker: keys for about 1 MiB ---> servers ---> values ---> client's socket
//	                                       |
//	                                       '--- values beyond 4 MiB in a round are dropped; their keys are in the next portion
//
// A reply of any size passes through in portions, sized by the average size of the client's values. While clients that
// do not read use all of the memory, a reply above 16 KiB is dropped when it has come, and asked for again when there
// is memory, or room in the client's socket. A retrieval that has more keys than a portion ends its part of the round,
// and its batch returns to the queue, by way of its slow client if need be, to continue at the next key. Values beyond
// the expected size are dropped and requested again. A read is never repeated after a write of its key: its values are
// kept, or it fails beyond 16 MiB. A value larger than Limits.MaxValue is not held, whatever size the server announces:
// its bytes are dropped as they arrive, and the request gets an error.
//
// # Starting and stopping
//
// The servers of the options include those of the list in force that lookups do not show (InForce). Run tries to reach
// every server, judges those that it reached, starts the workers, then accepts clients. A server that was not reached
// is down, and its prober brings it into service. Ready is closed when enough servers are up for Options.Ready.
//
// Stopping follows the data. The listeners close. Each reader ends when its client's requests have been answered and
// the client has received the replies; after half of Options.DrainTimeout it ends once the requests that it has read
// are answered. The queue closes. The workers end when it is empty and close their connections. The probers wait for
// what was sent on connections that were given up. Last, the servers record that no write is in flight any more, if
// that is so. If they have no such record of the previous middleware, a start waits a moment (aftermath), because the
// servers may still be executing its last requests, and compares the replicas.
package middleware
