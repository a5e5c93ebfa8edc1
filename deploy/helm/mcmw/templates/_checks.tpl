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
{{- $pools := get $v.config "pools" | default dict -}}
{{- $chart := include "mcmw.pools" . | fromYamlArray -}}
{{- $own := $pools -}}
{{- $names := list -}}
{{- range $chart -}}
{{- $names = append $names .name -}}
{{- $own = omit $own .name -}}
{{- end -}}
{{- /* Contradictions, each with its message. */ -}}
{{- range list
  (list (and $v.memcached.enabled $v.servers) "servers is set, and memcached.enabled is true: set memcached.enabled=false to use your own servers, or leave servers empty")
  (list (and $pools (or (and $v.memcached.enabled (not $v.memcached.pools)) $v.servers)) "config.pools is set, and pools have their own servers: set memcached.enabled=false, and leave servers empty, or list the chart's pools in memcached.pools")
  (list (not (or $v.memcached.enabled $v.servers $pools)) "memcached.enabled is false and servers is empty: mcmw needs servers, such as servers={cache1:11211,cache2:11211}")
  (list (eq (int $v.adminPort) 11311) "adminPort is 11311, the port on which mcmw's container listens for clients; expected another port (service.port does not change the container's)")
  (list (and $v.networkPolicy.enabled (or $own (not $v.memcached.enabled)) (not $v.networkPolicy.egress)) "networkPolicy.enabled is true and networkPolicy.egress is empty: mcmw could not connect to your servers; expected rules that allow it, as in networking.k8s.io/v1")
  (list (and (eq $v.kind "DaemonSet") (or $v.autoscaling.enabled $v.keda.enabled)) "kind is DaemonSet, which has one pod per node: autoscaling.enabled and keda.enabled need kind=Deployment")
  (list (and $v.socketDirectory (ne $v.kind "DaemonSet")) "socketDirectory is set: two pods of a node could not share its socket; expected kind=DaemonSet")
  (list (and $v.socketDirectory (ne (toString $v.updateStrategy.maxSurge) "0")) "socketDirectory is set, and updateStrategy.maxSurge is not 0: a pod can't listen on the socket before the previous one has ended; expected updateStrategy.maxSurge=0 and updateStrategy.maxUnavailable=1")
  (list (and $v.autoscaling.enabled $v.keda.enabled) "autoscaling.enabled and keda.enabled are both true: KEDA creates its own HorizontalPodAutoscaler; expected only one of them")
  (list (and $v.keda.enabled (not $v.keda.prometheusAddress) (not $v.keda.triggers)) "keda.enabled is true, but there is no trigger: expected keda.prometheusAddress or keda.triggers")
  (list (and $v.autoscaling.enabled (not $v.autoscaling.targetCPUUtilization) (not $v.autoscaling.queue.enabled) (not $v.autoscaling.metrics)) "autoscaling.enabled is true, but there is no metric to scale by: expected autoscaling.targetCPUUtilization, autoscaling.queue.enabled or autoscaling.metrics")
  (list (and $v.autoscaling.enabled $v.autoscaling.targetCPUUtilization (not (dig "requests" "cpu" "" $v.resources))) "autoscaling.targetCPUUtilization is relative to resources.requests.cpu, which is not set")
  (list (and $v.metrics.serviceMonitor.enabled $v.metrics.podMonitor.enabled) "metrics.serviceMonitor.enabled and metrics.podMonitor.enabled are both true: every pod would be scraped twice; expected only one of them")
  (list (and (eq (int $v.updateStrategy.maxUnavailable) 0) (eq (int $v.updateStrategy.maxSurge) 0)) "updateStrategy.maxUnavailable and updateStrategy.maxSurge are both 0: no pod could ever be replaced")
  (list (and (eq $v.kind "DaemonSet") (gt (int $v.updateStrategy.maxUnavailable) 0) (gt (int $v.updateStrategy.maxSurge) 0)) "kind is DaemonSet, and updateStrategy.maxUnavailable and updateStrategy.maxSurge are both above 0, which Kubernetes refuses for DaemonSets: expected one of them to be 0")
  (list (and $v.tls.clientCA (not $v.tls.secretName)) "tls.clientCA is true and tls.secretName is empty: expected the Secret that has ca.crt")
  (list (and $v.serverTLS.clientCertificate (not $v.serverTLS.secretName)) "serverTLS.clientCertificate is true and serverTLS.secretName is empty: expected the Secret that has tls.crt and tls.key")
  (list (and $v.serverTLS.enabled (gt (len $chart) 1) (not $v.serverTLS.name)) "serverTLS.enabled is true, serverTLS.name is empty, and the servers of several pools have different names: expected one name that all their certificates are valid for") -}}
{{- if first . -}}{{- fail (last .) -}}{{- end -}}
{{- end -}}
{{- range $chart -}}
{{- if and .name (hasKey (get $pools .name | default dict) "servers") -}}
{{- fail (printf "%s.servers is set, and %s.name is %s: expected options of the chart's pool without its servers, or another name" .options .at .name) -}}
{{- end -}}
{{- end -}}
{{- range $name, $pool := $own -}}
{{- if not (hasKey (default dict $pool) "servers") -}}
{{- fail (printf "config.pools.%s has no servers, and memcached.pools has no pool of this name; expected servers, or one of the names %s" $name (join ", " $names)) -}}
{{- end -}}
{{- end -}}
{{- include "mcmw.unique" (list "memcached.pools" "name" $v.memcached.pools (list)) -}}
{{- /* The number of servers of a name is known only after it is looked up. */ -}}
{{- $counted := $chart -}}
{{- if and $v.servers (not (regexMatch "(^|[ =])[a-z0-9]+[+]" (join " " $v.servers))) -}}
{{- $counted = list (dict "config" $v.config "options" "config" "replicas" (len $v.servers) "counted" "servers") -}}
{{- end -}}
{{- range $counted -}}
{{- $replicas := get .config "replicas" | default "all" -}}
{{- if and (ne (toString $replicas) "all") (gt (int $replicas) (int .replicas)) -}}
{{- fail (printf "%s.replicas is %d and there are %d servers (%s): expected all, or 1 to %d" .options (int $replicas) (int .replicas) (get . "counted" | default (printf "%s.replicas" .at)) (int .replicas)) -}}
{{- end -}}
{{- end -}}
{{- if eq (include "mcmw.severalPods" .) "true" -}}
{{- with include "mcmw.alone" . -}}{{- fail . -}}{{- end -}}
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
{{- range $name := list "autoscaling" "keda" -}}
{{- $scaling := index $v $name -}}
{{- if and $scaling.enabled (gt (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- fail (printf "%s.minReplicas is %d and %s.maxReplicas is %d: expected a minimum that does not exceed the maximum" $name (int $scaling.minReplicas) $name (int $scaling.maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- /* Values of an earlier chart. With --reuse-values its defaults are here, too, which did nothing. */ -}}
{{- $moved := dict "loadgen.enabled" (dig "enabled" "" (default dict $v.loadgen)) "loadgen.jobs" (dig "jobs" "" (default dict $v.loadgen)) "tests.load.enabled" (dig "load" "enabled" "" $v.tests) -}}
{{- range $key, $value := $moved -}}
{{- if $value -}}
{{- fail (printf "%s is set, and the load is a chart of its own now, mcmw-load, with the values of loadgen at its top and those of tests.load below test; remove it here, and run\n  helm install %s-load deploy/helm/mcmw-load --set target.host=%s" $key $.Release.Name (include "mcmw.fullname" $)) -}}
{{- end -}}
{{- end -}}
{{- $value := include "mcmw.size" (get $v.config "max-value" | default "1m") | int64 -}}
{{- if gt (include "mcmw.size" (get $v.config "large-values" | default 0) | int64) $value -}}
{{- fail (printf "config.large-values is %v and config.max-value is %v, so clients could not send such values; expected config.max-value of at least config.large-values" (get $v.config "large-values") (get $v.config "max-value" | default "1m")) -}}
{{- end -}}
{{- /* 64 MiB for mcmw itself with some hundred clients, a value from a client and one from a server. */ -}}
{{- include "mcmw.limited" (list $v.resources "resources" "mcmw would be killed" (add 67108864 (mul 2 $value)) "64 and twice config.max-value") -}}
{{- range $chart -}}
{{- if ne (not $v.serverTLS.enabled) (not .tls.secretName) -}}
{{- fail (printf "%s.tls.secretName and serverTLS.enabled belong together: set both for TLS to the chart's servers, or neither" .at) -}}
{{- end -}}
{{- $item := include "mcmw.itemSize" . | int64 -}}
{{- $large := include "mcmw.size" (get .config "large-values" | default 0) | int64 -}}
{{- $why := ternary (printf "%s.maxItemSize" .at) (ternary (printf "%s.item-size" .options) "config.max-value" (gt $large 0)) (not (empty .maxItemSize)) -}}
{{- if gt (mul 2 $item) (mul .memoryMiB 1048576) -}}
{{- fail (printf "%s is %d bytes and %s.memoryMiB is %d: memcached accepts at most half of its memory as the size of an item; expected %s.memoryMiB of at least %d" $why $item .at (int .memoryMiB) .at (int (div (add (mul 2 $item) 1048575) 1048576))) -}}
{{- end -}}
{{- if or (lt $item 524288) (gt $item 1073741824) -}}
{{- fail (printf "%s is %d bytes: memcached accepts 512k to 1024m" $why $item) -}}
{{- end -}}
{{- if and $large (lt $item (include "mcmw.size" (get .config "item-size" | default "1m") | int64)) -}}
{{- fail (printf "%s.maxItemSize is %v, and with config.large-values mcmw stores items of up to config.item-size, %v; expected %s.maxItemSize of at least that" .at .maxItemSize (get .config "item-size" | default "1m") .at) -}}
{{- end -}}
{{- include "mcmw.limited" (list .resources (printf "%s.resources" .at) "memcached would be killed before it is full" (mul (add .memoryMiB 16) 1048576) (printf "%s.memoryMiB plus 16" .at)) -}}
{{- include "mcmw.unique" (list (printf "%s.extraVolumes" .at) "name" .extraVolumes (list (dict "name" "tls") (dict "name" "auth"))) -}}
{{- end -}}
{{- /* If Helm only renders, lookup returns nothing. */ -}}
{{- if .Release.IsInstall -}}
{{- $selector := dict "app.kubernetes.io/name" (include "mcmw.selector" (list . "proxy") | fromYaml | dig "app.kubernetes.io/name" "") "app.kubernetes.io/instance" .Release.Name -}}
{{- range dig "items" (list) (lookup "v1" "Pod" .Release.Namespace "") -}}
{{- $labels := default dict .metadata.labels -}}
{{- if and .metadata.deletionTimestamp (eq (pick $labels "app.kubernetes.io/name" "app.kubernetes.io/instance" | toJson) ($selector | toJson)) -}}
{{- fail (printf "pod %s of an earlier installation is still terminating, and the Services would send clients to it; wait until it is gone:\n  kubectl --namespace %s wait --for=delete pod --selector 'app.kubernetes.io/instance=%s,app.kubernetes.io/component notin (check,test)' --timeout=2m"
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
{{- include "mcmw.unique" (list "extraVolumes" "name" $v.extraVolumes (append (include "mcmw.volumes" . | fromYamlArray) (dict "name" "socket"))) -}}
{{- $mounts := list (dict "mountPath" "/run/mcmw") -}}
{{- range include "mcmw.volumes" . | fromYamlArray -}}{{- $mounts = append $mounts (dict "mountPath" (printf "/etc/mcmw/%s" .name)) -}}{{- end -}}
{{- include "mcmw.unique" (list "extraVolumeMounts" "mountPath" $v.extraVolumeMounts $mounts) -}}
{{- include "mcmw.unique" (list "extraContainers" "name" $v.extraContainers (list (dict "name" "mcmw"))) -}}
{{- end -}}

{{- /* Why two pods must not write at the same time; nothing if they may. */ -}}
{{- define "mcmw.alone" -}}
{{- $all := include "mcmw.pools" . | fromYamlArray -}}
{{- $own := get .Values.config "pools" | default dict -}}
{{- range $all -}}{{- $own = omit $own .name -}}{{- end -}}
{{- range $name, $pool := $own -}}
{{- $all = append $all (dict "options" (printf "config.pools.%s" $name) "config" (merge (dict) $pool $.Values.config)) -}}
{{- end -}}
{{- $why := "" -}}
{{- range default (list (dict "options" "config" "config" .Values.config)) $all -}}
{{- $replicas := get .config "replicas" | default "all" | toString -}}
{{- $version := dig "image" "tag" "" . | toString | regexFind "^[0-9]+[.][0-9]+[.][0-9]+" | default "1.6.27" -}}
{{- if or $why (eq $replicas "1") -}}
{{- else if eq (toString (get .config "writers")) "one" -}}
{{- $why = printf "%s.writers is one and there can be several pods of mcmw: each would write as if it were the only one, and copies of a key would differ permanently; expected %s.writers=several, or replicas=1 without autoscaling" .options .options -}}
{{- else if and (not (dig "image" "digest" "" .)) (not (semverCompare ">=1.6.27" $version)) -}}
{{- $why = printf "%s.image.tag is %s and there can be several pods of mcmw, which keep the copies of a key equal only with memcached 1.6.27 or later; expected such a tag, replicas=1 without autoscaling, or %s.replicas=1" .at .image.tag .options -}}
{{- end -}}
{{- end -}}
{{- $why -}}
{{- end -}}

{{- /* Refuses a memory limit that is too low. Takes (list RESOURCES PATH CONSEQUENCE BYTES WHAT). */ -}}
{{- define "mcmw.limited" -}}
{{- $given := dig "limits" "memory" "" (index . 0) -}}
{{- $limit := include "mcmw.bytes" $given | int64 -}}
{{- if and $limit (lt $limit (int64 (index . 3))) -}}
{{- fail (printf "%s.limits.memory is %v: %s; expected at least %dMi, which is %s" (index . 1) $given (index . 2) (int (div (add (index . 3) 1048575) 1048576)) (index . 4)) -}}
{{- end -}}
{{- end -}}
