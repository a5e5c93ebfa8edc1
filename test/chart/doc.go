// Package chart tests the Helm charts in deploy/helm without a cluster. Helm 4, with MCMW_LONG=1 also Helm 3,
// renders every set of values. The tests decode the result strictly into the types of Kubernetes and of the Prometheus
// operator, check it with the evaluator of the Pod Security Standards, and let mcmw read its options.
//
// It is a separate module because the types of Kubernetes have many requirements. Helm is in another module below,
// because it requires newer versions of them. Each Helm is built once, in the user's cache directory.
package chart
