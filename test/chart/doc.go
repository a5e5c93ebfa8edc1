// Package chart holds the Helm chart in deploy/helm/mcmw to what it promises, without a cluster. Every set of values is rendered by the
// program of Helm 4, with MCMW_LONG=1 by that of Helm 3, too, decoded strictly into the types of Kubernetes and of the Prometheus operator, judged by the evaluator of the
// Pod Security Standards, and its options are read by mcmw itself.
//
// It is a module of its own because the types of Kubernetes have many requirements; Helm is in another one, below, because it requires
// newer ones. A Helm is built once, into the user's cache directory.
package chart
