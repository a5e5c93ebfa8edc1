{{- define "mcmw.replicas" -}}{{ ternary .Values.replicas .Values.replicaCount (or (kindIs "string" .Values.replicaCount) (kindIs "invalid" .Values.replicaCount)) | int }}{{- end -}}

{{- define "mcmw.metricsName" -}}{{ include "mcmw.fullname" . }}-metrics{{- end -}}

{{- define "mcmw.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "mcmw.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* Whether the user's own servers are looked up with k8s+. */ -}}
{{- define "mcmw.watchesOwn" -}}{{ contains "k8s+" (toJson (list .Values.servers (get .Values.config "pools"))) }}{{- end -}}

{{- /* Whether mcmw asks the API server for addresses: of the chart's servers, or of the user's. The default account of the namespace gets no rights for it. */ -}}
{{- define "mcmw.watches" -}}
{{- $wanted := or (and .Values.memcached.enabled .Values.memcached.watch) (eq (include "mcmw.watchesOwn" .) "true") -}}
{{- and $wanted (or .Values.serviceAccount.create (not (empty .Values.serviceAccount.name))) -}}
{{- end -}}

{{- /* The domain of Services, and the DNS name of the one for clients. */ -}}
{{- define "mcmw.domain" -}}{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}{{- end -}}
{{- define "mcmw.host" -}}{{ include "mcmw.fullname" . }}.{{ include "mcmw.domain" . }}{{- end -}}

{{- /* The chart's pools of memcached, as a list of YAML: the values of `memcached`, overridden by those of the pool's entry in memcached.pools, and
     name                        "" without memcached.pools
     component, fullname, host   of its pods, of its StatefulSet and Service, and of the Service in the DNS
     config                      the options of mcmw that apply to it
     watched                     whether mcmw asks the API server for the addresses of its pods, "true" or "false"
     at, options                 where its values and its options are, for messages
A StatefulSet's name has at most 52 characters: its pods have a label with it and a hash. Without memcached.pools it is one pool without a name, which has the objects of a pool named memcached: a release can change from one to the other. */ -}}
{{- define "mcmw.pools" -}}
{{- $pools := list -}}
{{- if .Values.memcached.enabled -}}
{{- $config := .Values.config -}}
{{- range $i, $entry := default (list dict) .Values.memcached.pools -}}
{{- $name := get $entry "name" -}}
{{- $component := ternary "memcached" (printf "memcached-%s" $name) (has $name (list "" "memcached")) -}}
{{- $fullname := printf "%s-%s" (include "mcmw.fullname" $ | trunc (sub 51 (len $component) | int) | trimSuffix "-") $component -}}
{{- $derived := dict "name" $name "component" $component "fullname" $fullname "host" (printf "%s.%s" $fullname (include "mcmw.domain" $))
  "config" (merge (dict) (get (get $config "pools" | default dict) $name | default dict) $config)
  "at" (ternary "memcached" (printf "memcached.pools[%d]" $i) (empty $name)) "options" (ternary "config" (printf "config.pools.%s" $name) (empty $name)) -}}
{{- $pool := merge $derived (include "mcmw.overlay" (list $.Values.memcached $entry) | fromYaml) -}}
{{- $pools = append $pools (set $pool "watched" (and $pool.watch (eq (include "mcmw.watches" $) "true") | toString)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $pools -}}
{{- end -}}

{{- /* A mapping over another one: its texts, numbers and lists replace those of the other. Takes (list OTHER MAPPING). */ -}}
{{- define "mcmw.overlay" -}}
{{- $merged := deepCopy (first .) -}}
{{- range $key, $value := last . -}}
{{- $under := get $merged $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $under) -}}{{- $value = include "mcmw.overlay" (list $under $value) | fromYaml -}}{{- end -}}
{{- $_ := set $merged $key $value -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end -}}

{{- /* What a PodDisruptionBudget allows. Takes its values. */ -}}
{{- define "mcmw.budget" -}}
{{- if .minAvailable -}}
minAvailable: {{ .minAvailable }}
{{- else -}}
maxUnavailable: {{ .maxUnavailable }}
{{- end -}}
{{- end -}}

{{- /* A quantity of memory in bytes; 0 for none. */ -}}
{{- define "mcmw.bytes" -}}
{{- $text := . | toString -}}
{{- if not . -}}
0
{{- else if not (regexMatch "^[0-9]+([.][0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$" $text) -}}
{{- fail (printf "%q is not a quantity of memory that the chart understands; expected a number of bytes, or one with Ki, Mi, Gi, Ti, k, M, G or T, such as 512Mi" $text) -}}
{{- else -}}
{{- $number := regexFind "^[0-9.]+" $text | float64 -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- mulf $number (index $units (regexFind "[A-Za-z]*$" $text)) | floor | int64 -}}
{{- end -}}
{{- end -}}

{{- /* The multipliers of mcmw's sizes. */ -}}
{{- define "mcmw.units" -}}
{k: 1024, m: 1048576, g: 1073741824}
{{- end -}}

{{- /* A size as mcmw and memcached read it, such as 2m, in bytes. */ -}}
{{- define "mcmw.size" -}}
{{- $text := include "mcmw.text" . | lower -}}
{{- $unit := regexFind "[kmg]$" $text -}}
{{- mul (trimSuffix $unit $text | int64) (get (include "mcmw.units" . | fromYaml) $unit | default 1 | int64) -}}
{{- end -}}

{{- /* The size of the largest item of a pool's servers (-I), bytes: that of the largest value, or of what mcmw splits values into. Never below memcached's default. */ -}}
{{- define "mcmw.itemSize" -}}
{{- $option := ternary "item-size" "max-value" (gt (include "mcmw.size" (get .config "large-values" | default 0) | int64) 0) -}}
{{- if .maxItemSize -}}
{{- include "mcmw.size" .maxItemSize -}}
{{- else -}}
{{- max 1048576 (include "mcmw.size" (get .config $option | default "1m") | int64) -}}
{{- end -}}
{{- end -}}

{{- /* An option's value as text. Helm reads numbers as floating point. */ -}}
{{- define "mcmw.text" -}}
{{- if kindIs "string" . -}}{{ . }}{{- else if kindIs "slice" . -}}{{ join "," . }}{{- else -}}{{ toJson . }}{{- end -}}
{{- end -}}

{{- /* Peers of a network policy that are the pods of a component. Takes (list $ COMPONENT). */ -}}
{{- define "mcmw.pods" -}}
- podSelector:
    matchLabels:
      {{- include "mcmw.selector" . | nindent 6 }}
{{- end -}}
