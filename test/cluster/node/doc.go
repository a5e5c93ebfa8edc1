// Package node brings up a Kubernetes of one node on this machine, and takes it down.
//
//	up --> init (first process of new namespaces) --> supervisor --> etcd, kube-apiserver, containerd, kubelet, ...
//	                                                                               |
//	exec --> enters the namespaces                                                 '--> pods
//
// The whole cluster runs in its own namespaces: processes, mounts, network, host name. Its files are in file systems in
// memory that only these namespaces see. So it changes nothing outside, several clusters can exist at a time, and when
// its first process ends for any reason, the kernel ends everything else: processes, interfaces, rules, mounts. Only
// empty control groups and the folder with its logs stay; Down removes them.
//
// The programs are compiled from Go modules at exact versions, once, into the cache; etcd, containerd, runc and the
// network plugins are Debian's.
package node
