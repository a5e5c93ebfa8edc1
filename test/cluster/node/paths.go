package node

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Cluster is a cluster on this machine, which may or may not exist.
type Cluster struct {
	name  string
	cache string // folder of the programs that are compiled once for all clusters
}

// DefaultName is the cluster of `make cluster-up`.
const DefaultName = "mcmw"

var validName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// New returns the cluster with a name of lower-case letters, digits and hyphens.
func New(name string) (*Cluster, error) {
	if !validName.MatchString(name) {
		return nil,
			fmt.Errorf("cluster name %q: expected a lower-case letter, then up to 31 lower-case letters, digits or "+
				"hyphens", name)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("where to keep what is compiled: %w; set XDG_CACHE_HOME or HOME", err)
	}
	return &Cluster{name: name, cache: filepath.Join(cache, "mcmw", "cluster")}, nil
}

// Dir returns the folder of the running cluster, with its logs and the id of its first process. Down removes it.
func (c *Cluster) Dir() string { return filepath.Join(c.cache, "run-"+c.name) }

// Logs returns the folder with a log file for each program of the cluster.
func (c *Cluster) Logs() string { return filepath.Join(c.Dir(), "logs") }

func (c *Cluster) lockFile() string  { return filepath.Join(c.Dir(), "lock") }
func (c *Cluster) ownerFile() string { return filepath.Join(c.Dir(), "init") }

// cgroup is the control group of all pods, below the root of every hierarchy.
func (c *Cluster) cgroup() string { return "/mcmw-cluster-" + c.name }

// searchPath is PATH for the programs of the cluster: those compiled for it first.
func (c *Cluster) searchPath() string {
	var dirs []string
	for _, p := range programs {
		dirs = append(dirs, p.folder(c.cache))
	}
	return strings.Join(append(dirs, os.Getenv("PATH"), "/usr/sbin", "/sbin"), ":")
}

// Inside the namespaces of the cluster, /run is in memory, and seen by nobody else.
const (
	insideDir        = "/run/mcmw"
	adminConfig      = insideDir + "/admin.kubeconfig"
	containerdSocket = insideDir + "/containerd.sock"
)

// Addresses of the cluster's network, which nobody else sees.
const (
	nodeName       = "node"
	nodeAddress    = "10.98.0.1"
	podNetwork     = "10.97.0.0/16"
	serviceNetwork = "10.96.0.0/16"
	apiAddress     = "10.96.0.1" // the first of the service network
	dnsAddress     = "10.96.0.10"
	apiServer      = "https://127.0.0.1:6443"
)

// ImportArgs are the arguments of ctr, inside the cluster, that import the image on its standard input for the kubelet.
func ImportArgs() []string {
	return []string{"--address", containerdSocket, "--namespace", "k8s.io", "images", "import", "-"}
}
