// Package kubernetes is the testbed of a cluster. The Helm chart mcmw installs servers and middlewares, and the pods of
// the chart mcmw-load put load on them.
//
//	namespace, made and removed by the lab
//	  release "load"   load pods, for the whole experiment: mcmwlab agent serve through kubectl exec (package remote)
//	  release "point"  servers and middlewares of one point, installed for every deployment
//	                   kubectl logs brings the middlewares' statistics, and ends when a pod does
//
// Load goes from pod to pod over the pods' network, spread as on other testbeds, and not through the Service, which
// would assign connections at random. The lab runs helm and kubectl, so the cluster is configured as for these
// programs.
package kubernetes
