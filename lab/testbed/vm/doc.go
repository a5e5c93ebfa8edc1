// Package vm emulates machines on this one: hosts of a testbed, each with its own network interface, bandwidths,
// processor time and memory.
//
//	machine "load-0"             switch                      machine "server-0"
//	  programs                                                 programs
//	  eth0 10.0.1.1  ----------  load-0 -- bridge -- server-0  ----------  eth0 10.0.3.1
//	    upload ->                <- download                                 <- upload
//	    [netem] TBF                  TBF                                         TBF [netem]
//
// A machine is a network namespace. Its interface is one end of a virtual cable; the other end is a port of a bridge in
// a namespace of its own. A token bucket at the machine's end limits what it sends, another one at the port what it
// receives. Programs are started in the namespace, in a control group that limits their processor time and memory.
//
// Packets take time to travel. If the kernel has no netem, a delay line delays them: one for all machines, on a thread
// of this process:
//
//	from the machine --> load-0 --redirected--> delay --> queue of frames --> delay --> bridge --> server-0 --> to the machine
//
// The kernel counts frames, 1514 bytes for 1448 of payload, so the rate of a bucket is 1514/1448 times the requested
// one. A bucket holds 2 ms of its rate, but at least two frames: this makes half a second of bulk wrong by 0.4 %. Up to
// half a second of packets wait for a direction; further ones are lost. The kernel passes on packets of at most 16 KiB
// instead of 64 KiB, for which a slow bucket has no room. TCP uses cubic if this machine allows it in namespaces
// (net.ipv4.tcp_allowed_congestion_control).
//
// Processor quotas have periods of 20 ms. This machine's processors don't sleep while the machines exist
// (/dev/cpu_dma_latency), if it has that file.
//
// In dilated time the machines have a fraction of the bandwidth and processor time that they represent, and packets
// travel longer. New does this; testbed.OnHosts does the rest.
//
// Namespaces have no names: this process holds their descriptors, and programs are in them. When this process ends,
// however it does, its programs are killed (package process). With the last of them the namespaces, cables, bridge and
// queueing disciplines disappear. Control groups remain if this process is killed; package cgroup recognizes them by
// their names and removes them.
package vm
