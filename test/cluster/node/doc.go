// Package node brings up a Kubernetes of one node on this machine, and takes it down.
//
//	up --> init (first process of namespaces of its own) --> supervisor --> etcd, kube-apiserver, containerd, kubelet, ...
//	                                                                               |
//	exec --> enters the namespaces                                                 '--> pods
//
// All of the cluster lives in namespaces of its own: processes, mounts, network, host name. Its files are in file systems in
// memory that only these namespaces see. So it changes nothing outside, several can exist at a time, and when its first
// process ends, however it ends, the kernel ends everything else: processes, interfaces, rules, mounts. What stays then are
// empty control groups and the folder with its logs, which Down removes.
//
// The programs are compiled from Go modules at exact versions, once, into the cache; etcd, containerd, runc and the network
// plugins are Debian's.
package node
