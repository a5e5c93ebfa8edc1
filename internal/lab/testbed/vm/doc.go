// Package vm emulates machines on this one: hosts of a testbed, each with its own network, bandwidths, processor time and memory.
//
//	machine "load-0"             switch                      machine "server-0"
//	  programs                                                 programs
//	  eth0 10.0.1.1  ----------  load-0 -- bridge -- server-0  ----------  eth0 10.0.3.1
//	    upload ->                <- download                                 <- upload
//	    [netem] TBF                  TBF                                         TBF [netem]
//
// A machine is a network namespace. Its interface is one end of a virtual cable, whose other end is a port of a bridge in a namespace
// of its own. A token bucket at the machine's end bounds what it sends, one at the port what it receives. Programs are started inside,
// in a control group that bounds their processor time and memory.
//
// Packets travel for a while. In kernels without netem a delay line holds them back, one for all machines, on a thread of this process:
//
//	from the machine --> load-0 --redirected--> delay --> queue of frames --> delay --> bridge --> server-0 --> to the machine
//
// The kernel counts frames, 1514 bytes for 1448 of payload, so a bucket's rate is 1514/1448 times what was asked for. A bucket holds 2 ms of
// its rate, two frames at least: half a second of bulk is wrong by 0.4 %. Up to half a second of packets wait for a direction; the rest is
// lost. The kernel hands on packets of at most 16 KiB instead of 64 KiB, for which a slow bucket has no room. Quotas of processors have periods
// of 20 ms. TCP uses cubic where the machine allows it in namespaces (net.ipv4.tcp_allowed_congestion_control).
//
// In dilated time machines have a part of what they stand for, and packets travel longer: New does that, testbed.Dilate the rest.
//
// Namespaces have no names: this process holds them by descriptors, programs by being in them. When this process ends, however it
// does, its programs are killed (package process), and namespaces, cables, bridge and queueing disciplines are gone with the last of
// them. Control groups stay behind when it is killed; package cgroup knows them by their names and removes them.
package vm
