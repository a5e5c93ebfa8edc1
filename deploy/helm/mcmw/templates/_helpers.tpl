{{- /* Names. */ -}}
{{- define "mcmw.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "mcmw.replicas" -}}{{ ternary .Values.replicas .Values.replicaCount (or (kindIs "string" .Values.replicaCount) (kindIs "invalid" .Values.replicaCount)) | int }}{{- end -}}

{{- define "mcmw.loadgenName" -}}{{ include "mcmw.fullname" . | trunc 44 | trimSuffix "-" }}-loadgen{{- end -}}
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
{{- $pools = append $pools (merge $derived (include "mcmw.overlay" (list $.Values.memcached $entry) | fromYaml)) -}}
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

{{- /* Labels. Takes (list $ COMPONENT). The labels of the selector never change: a Deployment and a StatefulSet do not allow it. */ -}}
{{- define "mcmw.selector" -}}
{{- $root := first . -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ last . }}
{{- end -}}

{{- define "mcmw.labels" -}}
{{- $root := first . -}}
{{- $own := include "mcmw.selector" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $own "app.kubernetes.io/version" ($root.Chart.AppVersion | toString) -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- include "mcmw.known" (merge $own $root.Values.commonLabels) -}}
{{- end -}}

{{- /* What a PodDisruptionBudget allows. Takes its values. */ -}}
{{- define "mcmw.budget" -}}
{{- if .minAvailable -}}
minAvailable: {{ .minAvailable }}
{{- else -}}
maxUnavailable: {{ .maxUnavailable }}
{{- end -}}
{{- end -}}

{{- /* Metadata of an object. Takes (list $ NAME COMPONENT LABELS ANNOTATIONS NAMESPACE). */ -}}
{{- define "mcmw.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
namespace: {{ default $root.Release.Namespace (index . 5) }}
labels:
  {{- include "mcmw.known" (merge (include "mcmw.labels" (list $root (index . 2)) | fromYaml) (index . 3)) | nindent 2 }}
{{- with include "mcmw.known" (merge (dict) (index . 4) $root.Values.commonAnnotations) | fromYaml }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Metadata of a pod. Takes (list $ COMPONENT LABELS ANNOTATIONS). Without the chart's version, which alone need not replace pods. */ -}}
{{- define "mcmw.podMetadata" -}}
{{- $root := index . 0 -}}
labels:
  {{- include "mcmw.known" (merge (include "mcmw.selector" (list $root (index . 1)) | fromYaml) (index . 2) $root.Values.commonLabels) | nindent 2 }}
{{- with include "mcmw.known" (merge (dict) (index . 3) $root.Values.commonAnnotations) | fromYaml }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* An image. Takes (list $ IMAGE DEFAULTREPOSITORY DEFAULTTAG). */ -}}
{{- define "mcmw.image" -}}
{{- $image := index . 1 -}}
{{- $repository := default (index . 2) $image.repository -}}
{{- with (index . 0).Values.global.imageRegistry -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) $repository -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default (index . 3) $image.tag | toString) -}}
{{- end -}}
{{- end -}}

{{- /* The scheduling of a component's pods. Takes (list $ COMPONENT VALUES). */ -}}
{{- define "mcmw.placement" -}}
{{- $values := index . 2 -}}
{{- $selector := include "mcmw.selector" (list (index . 0) (index . 1)) | fromYaml -}}
{{- with include "mcmw.known" $values.nodeSelector | fromYaml }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with default $values.topologySpread $values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{ toYaml (merge (dict) . (dict "labelSelector" (dict "matchLabels" $selector))) | nindent 4 | trim }}
  {{- end }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.schedulerName }}
schedulerName: {{ . }}
{{- end }}
{{- end -}}

{{- /* A mapping without null values: with null, a values file removes what an earlier one has set. */ -}}
{{- define "mcmw.known" -}}
{{- $known := dict -}}
{{- range $key, $value := . -}}
{{- if kindIs "map" $value -}}
{{- $_ := set $known $key (include "mcmw.known" $value | fromYaml) -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- $_ := set $known $key $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $known -}}
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
