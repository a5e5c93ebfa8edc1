// Package kubernetes is the testbed of a cluster: servers and middlewares are installed there by the Helm chart, load is put on them
// by its load pods.
//
//	namespace, made and removed by the lab
//	  release "load"   load pods, for the whole experiment: mcmwlab agent serve by kubectl exec (package remote)
//	  release "point"  servers and middlewares as the point wants them, installed for every deployment
//	                   kubectl logs brings the middlewares' statistics, and ends when a pod does
//
// Load goes over the pods' network from pod to pod, spread as on other testbeds, and not through the Service: who gets which
// connection is then no accident. helm and kubectl are run as programs, so what leads to the cluster is configured as for them.
package kubernetes
