{{- /* Checks that the schema can't express. Each message names the keys and what is expected. */ -}}
{{- define "mcmw.checks" -}}
{{- $v := .Values -}}
{{- /* If Helm only renders, it assumes the versions of all times, of which no cluster has this one any more. */ -}}
{{- if not (.Capabilities.APIVersions.Has "extensions/v1beta1") -}}
{{- $operators := list (list "metrics.serviceMonitor" $v.metrics.serviceMonitor "monitoring.coreos.com/v1" "the Prometheus operator") (list "metrics.podMonitor" $v.metrics.podMonitor "monitoring.coreos.com/v1" "the Prometheus operator")
  (list "metrics.prometheusRule" $v.metrics.prometheusRule "monitoring.coreos.com/v1" "the Prometheus operator") (list "keda" $v.keda "keda.sh/v1alpha1" "KEDA") -}}
{{- range $operators -}}
{{- if and (index . 1).enabled (not ($.Capabilities.APIVersions.Has (index . 2))) -}}
{{- fail (printf "%s.enabled is true, and this cluster has no API %s: install %s with its CustomResourceDefinitions first, or set it to false" (index . 0) (index . 2) (index . 3)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $needed := add $v.drain.preStopSleepSeconds $v.drain.timeoutSeconds 2 -}}
{{- if gt (int $needed) (int $v.drain.gracePeriodSeconds) -}}
{{- fail (printf "drain.gracePeriodSeconds is %d: the kubelet would kill mcmw while it drains; expected at least %d, which is drain.preStopSleepSeconds (%d), drain.timeoutSeconds (%d) and 2"
  (int $v.drain.gracePeriodSeconds) (int $needed) (int $v.drain.preStopSleepSeconds) (int $v.drain.timeoutSeconds)) -}}
{{- end -}}
{{- if and $v.memcached.enabled $v.servers -}}
{{- fail "servers is set, and memcached.enabled is true: set memcached.enabled=false to use your own servers, or leave servers empty" -}}
{{- end -}}
{{- $pools := get $v.config "pools" | default dict -}}
{{- if and $pools (or $v.memcached.enabled $v.servers) -}}
{{- fail "config.pools is set, and pools have their own servers: set memcached.enabled=false, and leave servers empty" -}}
{{- end -}}
{{- if not (or $v.memcached.enabled $v.servers $pools) -}}
{{- fail "memcached.enabled is false and servers is empty: mcmw needs servers, such as servers={cache1:11211,cache2:11211}" -}}
{{- end -}}
{{- $replicas := get $v.config "replicas" | default "all" -}}
{{- $count := ternary $v.memcached.replicas (len $v.servers) $v.memcached.enabled | int -}}
{{- /* The number of servers of a name is known only after it is looked up. */ -}}
{{- $counted := not (regexMatch "(^|[ =])(dns[46]?|srv)[+]" (join " " $v.servers)) -}}
{{- if and (not $pools) $counted (ne (toString $replicas) "all") (gt (int $replicas) $count) -}}
{{- fail (printf "config.replicas is %d and there are %d servers (%s): expected all, or 1 to %d" (int $replicas) $count (ternary "memcached.replicas" "servers" $v.memcached.enabled) $count) -}}
{{- end -}}
{{- if eq (include "mcmw.severalPods" .) "true" -}}
{{- $all := dict "config" $v.config -}}
{{- range $name, $pool := $pools -}}{{- $_ := set $all (printf "config.pools.%s" $name) (merge (dict) $pool (pick $v.config "replicas" "writers")) -}}{{- end -}}
{{- if $pools -}}{{- $_ := unset $all "config" -}}{{- end -}}
{{- range $key, $pool := $all -}}
{{- if and (eq (toString (get $pool "writers")) "one") (ne (get $pool "replicas" | default "all" | toString) "1") -}}
{{- fail (printf "%s.writers is one and there can be several pods of mcmw: each would write as if it were the only one, and copies of a key would differ permanently; expected %s.writers=several, or replicas=1 without autoscaling" $key $key) -}}
{{- end -}}
{{- end -}}
{{- $version := regexFind "^[0-9]+[.][0-9]+[.][0-9]+" (toString $v.memcached.image.tag) -}}
{{- if and $v.memcached.enabled (not $v.memcached.image.digest) $version (ne (toString $replicas) "1") -}}
{{- if not (semverCompare ">=1.6.27" $version) -}}
{{- fail (printf "memcached.image.tag is %s and there can be several pods of mcmw, which keep the copies of a key equal only with memcached 1.6.27 or later; expected such a tag, replicas=1 without autoscaling, or config.replicas=1" $v.memcached.image.tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq (int $v.adminPort) 11311 -}}
{{- fail "adminPort is 11311, the port on which mcmw's container listens for clients; expected another port (service.port does not change the container's)" -}}
{{- end -}}
{{- if and $v.networkPolicy.enabled (not $v.memcached.enabled) (not $v.networkPolicy.egress) -}}
{{- fail "networkPolicy.enabled is true and networkPolicy.egress is empty: mcmw could not connect to your servers; expected rules that allow it, as in networking.k8s.io/v1" -}}
{{- end -}}
{{- $units := include "mcmw.units" . | fromYaml -}}
{{- $times := dict "us" 1e3 "ms" 1e6 "s" 1e9 "m" 6e10 "h" 3.6e12 -}}
{{- range $name, $range := include "mcmw.ranges" . | fromYaml -}}
{{- $value := get $v.config $name -}}
{{- if and (kindIs "string" $value) $value -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-z]*" (lower $value) -1 -}}
{{- $unit := regexFind "[a-z]*$" . -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit . | float64) (get (ternary $times $units (contains "us" $range.accepted)) $unit | default 1)) -}}
{{- end -}}
{{- if or (lt $sum (float64 $range.least)) (gt $sum (float64 $range.most)) -}}
{{- fail (printf "config.%s is %s: expected %s" $name $value $range.accepted) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq $v.kind "DaemonSet") (or $v.autoscaling.enabled $v.keda.enabled) -}}
{{- fail "kind is DaemonSet, which has one pod per node: autoscaling.enabled and keda.enabled need kind=Deployment" -}}
{{- end -}}
{{- if and $v.autoscaling.enabled $v.keda.enabled -}}
{{- fail "autoscaling.enabled and keda.enabled are both true: KEDA creates its own HorizontalPodAutoscaler; expected only one of them" -}}
{{- end -}}
{{- if and $v.keda.enabled (not $v.keda.prometheusAddress) (not $v.keda.triggers) -}}
{{- fail "keda.enabled is true, but there is no trigger: expected keda.prometheusAddress or keda.triggers" -}}
{{- end -}}
{{- if and $v.autoscaling.enabled (not $v.autoscaling.targetCPUUtilization) (not $v.autoscaling.queue.enabled) (not $v.autoscaling.metrics) -}}
{{- fail "autoscaling.enabled is true, but there is no metric to scale by: expected autoscaling.targetCPUUtilization, autoscaling.queue.enabled or autoscaling.metrics" -}}
{{- end -}}
{{- range $name := list "autoscaling" "keda" -}}
{{- $scaling := index $v $name -}}
{{- if and $scaling.enabled (gt (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- fail (printf "%s.minReplicas is %d and %s.maxReplicas is %d: expected a minimum that does not exceed the maximum" $name (int $scaling.minReplicas) $name (int $scaling.maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- if and $v.autoscaling.enabled $v.autoscaling.targetCPUUtilization (not (dig "requests" "cpu" "" $v.resources)) -}}
{{- fail "autoscaling.targetCPUUtilization is relative to resources.requests.cpu, which is not set" -}}
{{- end -}}
{{- if and $v.metrics.serviceMonitor.enabled $v.metrics.podMonitor.enabled -}}
{{- fail "metrics.serviceMonitor.enabled and metrics.podMonitor.enabled are both true: every pod would be scraped twice; expected only one of them" -}}
{{- end -}}
{{- if and (eq (int $v.updateStrategy.maxUnavailable) 0) (eq (int $v.updateStrategy.maxSurge) 0) -}}
{{- fail "updateStrategy.maxUnavailable and updateStrategy.maxSurge are both 0: no pod could ever be replaced" -}}
{{- end -}}
{{- if and $v.tls.clientCA (not $v.tls.secretName) -}}
{{- fail "tls.clientCA is true and tls.secretName is empty: expected the Secret that has ca.crt" -}}
{{- end -}}
{{- if and $v.serverTLS.clientCertificate (not $v.serverTLS.secretName) -}}
{{- fail "serverTLS.clientCertificate is true and serverTLS.secretName is empty: expected the Secret that has tls.crt and tls.key" -}}
{{- end -}}
{{- if and $v.memcached.enabled (ne (not $v.serverTLS.enabled) (not $v.memcached.tls.secretName)) -}}
{{- fail "memcached.tls.secretName and serverTLS.enabled belong together: set both for TLS to the chart's servers, or neither" -}}
{{- end -}}
{{- if and $v.auth.secretName (eq $v.loadgen.generator "memtier") (or $v.loadgen.enabled $v.loadgen.jobs $v.tests.load.enabled) -}}
{{- fail "auth.secretName is set and loadgen.generator is memtier, which cannot authenticate over the text protocol: expected loadgen.generator=mcmwlab" -}}
{{- end -}}
{{- $value := include "mcmw.size" (get $v.config "max-value" | default "1m") | int64 -}}
{{- $large := include "mcmw.size" (get $v.config "large-values" | default 0) | int64 -}}
{{- if gt $large $value -}}
{{- fail (printf "config.large-values is %v and config.max-value is %v, so clients could not send such values; expected config.max-value of at least config.large-values" (get $v.config "large-values") (get $v.config "max-value" | default "1m")) -}}
{{- end -}}
{{- /* 64 MiB for mcmw itself with some hundred clients, a value from a client and one from a server. */ -}}
{{- $limit := include "mcmw.bytes" (dig "limits" "memory" "" $v.resources) | int64 -}}
{{- $least := add 67108864 (mul 2 $value) -}}
{{- if and $limit (lt $limit $least) -}}
{{- fail (printf "resources.limits.memory is %v: mcmw would be killed; expected at least %dMi, which is 64 and twice config.max-value" $v.resources.limits.memory (int (div (add $least 1048575) 1048576))) -}}
{{- end -}}
{{- if $v.memcached.enabled -}}
{{- $item := include "mcmw.itemSize" . | int64 -}}
{{- $why := ternary "memcached.maxItemSize" (ternary "config.item-size" "config.max-value" (gt $large 0)) (not (empty $v.memcached.maxItemSize)) -}}
{{- if gt (mul 2 $item) (mul $v.memcached.memoryMiB 1048576) -}}
{{- fail (printf "%s is %d bytes and memcached.memoryMiB is %d: memcached accepts at most half of its memory as the size of an item; expected memcached.memoryMiB of at least %d" $why $item (int $v.memcached.memoryMiB) (int (div (add (mul 2 $item) 1048575) 1048576))) -}}
{{- end -}}
{{- if or (lt $item 524288) (gt $item 1073741824) -}}
{{- fail (printf "%s is %d bytes: memcached accepts 512k to 1024m" $why $item) -}}
{{- end -}}
{{- if and $large (lt $item (include "mcmw.size" (get $v.config "item-size" | default "1m") | int64)) -}}
{{- fail (printf "memcached.maxItemSize is %v, and with config.large-values mcmw stores items of up to config.item-size, %v; expected memcached.maxItemSize of at least that" $v.memcached.maxItemSize (get $v.config "item-size" | default "1m")) -}}
{{- end -}}
{{- $limit := include "mcmw.bytes" (dig "limits" "memory" "" $v.memcached.resources) | int64 -}}
{{- $least := mul (add $v.memcached.memoryMiB 16) 1048576 -}}
{{- if and $limit (lt $limit $least) -}}
{{- fail (printf "memcached.resources.limits.memory is %v: memcached would be killed before it is full; expected at least %dMi, which is memcached.memoryMiB plus 16" $v.memcached.resources.limits.memory (int (add $v.memcached.memoryMiB 16))) -}}
{{- end -}}
{{- end -}}
{{- /* If Helm only renders, lookup returns nothing. */ -}}
{{- if .Release.IsInstall -}}
{{- $selector := dict "app.kubernetes.io/name" (include "mcmw.selector" (list . "proxy") | fromYaml | dig "app.kubernetes.io/name" "") "app.kubernetes.io/instance" .Release.Name -}}
{{- range dig "items" (list) (lookup "v1" "Pod" .Release.Namespace "") -}}
{{- $labels := default dict .metadata.labels -}}
{{- if and .metadata.deletionTimestamp (eq (pick $labels "app.kubernetes.io/name" "app.kubernetes.io/instance" | toJson) ($selector | toJson)) -}}
{{- fail (printf "pod %s of an earlier installation is still terminating, and the Services would send clients to it; wait until it is gone:\n  kubectl --namespace %s wait --for=delete pod --selector app.kubernetes.io/instance=%s --timeout=2m"
  .metadata.name $.Release.Namespace $.Release.Name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* The cluster, or Helm's server-side apply, refuses repeated names. */ -}}
{{- $managed := dict "MCMW_LISTEN" "service.port" "MCMW_LISTEN_PORT" "service.port" "MCMW_ADMIN" "adminPort" "MCMW_CONFIG" "config" "MCMW_DRAIN_TIMEOUT" "drain.timeoutSeconds" "MCMW_SERVERS" "servers" "MCMW_WRITERS" "config.writers" "MCMW_REPLICAS" "config.replicas" -}}
{{- range $v.extraEnv -}}
{{- if hasKey $managed .name -}}
{{- fail (printf "extraEnv has %s, which the chart sets: use %s" .name (index $managed .name)) -}}
{{- end -}}
{{- end -}}
{{- $short := dict "-l" "MCMW_LISTEN" "-p" "MCMW_LISTEN_PORT" "-m" "MCMW_SERVERS" -}}
{{- range $v.extraArgs -}}
{{- $flag := first (splitList "=" (toString .)) -}}
{{- $name := printf "MCMW_%s" (trimPrefix "--" $flag | upper | replace "-" "_") -}}
{{- range $letter, $long := $short -}}{{- if and (hasPrefix $letter $flag) (not (hasPrefix "--" $flag)) -}}{{- $name = $long -}}{{- end -}}{{- end -}}
{{- if hasKey $managed $name -}}
{{- fail (printf "extraArgs has %s, which the chart sets: use %s" $flag (index $managed $name)) -}}
{{- end -}}
{{- end -}}
{{- include "mcmw.unique" (list "extraEnv" "name" $v.extraEnv (list)) -}}
{{- include "mcmw.unique" (list "extraVolumes" "name" $v.extraVolumes (include "mcmw.volumes" . | fromYamlArray)) -}}
{{- $mounts := list -}}
{{- range include "mcmw.volumes" . | fromYamlArray -}}{{- $mounts = append $mounts (dict "mountPath" (printf "/etc/mcmw/%s" .name)) -}}{{- end -}}
{{- include "mcmw.unique" (list "extraVolumeMounts" "mountPath" $v.extraVolumeMounts $mounts) -}}
{{- include "mcmw.unique" (list "extraContainers" "name" $v.extraContainers (list (dict "name" "mcmw"))) -}}
{{- include "mcmw.unique" (list "memcached.extraVolumes" "name" $v.memcached.extraVolumes (list (dict "name" "tls") (dict "name" "auth"))) -}}
{{- include "mcmw.unique" (list "loadgen.jobs" "name" $v.loadgen.jobs (list)) -}}
{{- end -}}

{{- /* Refuses entries with the same name. Takes (list KEY FIELD ENTRIES TAKEN). */ -}}
{{- define "mcmw.unique" -}}
{{- $key := index . 0 -}}
{{- $field := index . 1 -}}
{{- $seen := dict -}}
{{- range index . 3 -}}{{- $_ := set $seen (get . $field) true -}}{{- end -}}
{{- range index . 2 -}}
{{- $name := get . $field -}}
{{- if hasKey $seen $name -}}
{{- fail (printf "%s has the %s %q, which exists already; expected another one" $key $field $name) -}}
{{- end -}}
{{- $_ := set $seen $name true -}}
{{- end -}}
{{- end -}}
