package agent

import (
	"os"
	"runtime"
	"strings"

	"mcmw/lab/kernel"
	"mcmw/lab/record"
)

// settingFiles are files of the kernel with settings that affect measurements, by the settings' names in records.
var settingFiles = map[string]string{
	"frequency_governor":        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
	"simultaneous_threads":      "/sys/devices/system/cpu/smt/control",
	"transparent_huge_pages":    "/sys/kernel/mm/transparent_hugepage/enabled",
	"somaxconn":                 "/proc/sys/net/core/somaxconn",
	"tcp_congestion_control":    "/proc/sys/net/ipv4/tcp_congestion_control",
	"tcp_slow_start_after_idle": "/proc/sys/net/ipv4/tcp_slow_start_after_idle",
}

// Describe returns what the kernel tells about this host.
func Describe() record.Host {
	h := record.Host{
		Kernel: kernel.Release(), CPU: kernel.ProcessorModel(), Cores: runtime.NumCPU(),
		GoVersion: runtime.Version(), Settings: map[string]string{},
	}
	h.Hostname, _ = os.Hostname()
	h.Memory, _ = kernel.Memory()
	h.OS = distribution()
	for name, file := range settingFiles {
		if text, err := os.ReadFile(file); err == nil {
			h.Settings[name] = strings.TrimSpace(string(text))
		}
	}
	return h
}

// distribution returns the name of the Linux distribution; "" if it is not known.
func distribution() string {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"`)
		}
	}
	return ""
}
