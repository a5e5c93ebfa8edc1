{{- /* What the charts of this directory share. "go generate ./internal/tools/chart" copies it from chart mcmw to the others. */ -}}

{{- define "mcmw.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $release := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $release .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{- /* Labels. Takes (list $ COMPONENT). The labels of the selector never change: a Deployment and a StatefulSet do not allow it. */ -}}
{{- define "mcmw.selector" -}}
{{- $root := first . -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ last . }}
{{- end -}}

{{- /* Metadata of an object. Takes (list $ NAME COMPONENT), and a mapping that may have labels, annotations and a namespace. */ -}}
{{- define "mcmw.metadata" -}}
{{- $root := index . 0 -}}
{{- $more := dict -}}
{{- range slice . 3 -}}{{- $more = . -}}{{- end -}}
{{- $own := include "mcmw.selector" (list $root (index . 2)) | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $own "app.kubernetes.io/version" ($root.Chart.AppVersion | toString) -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
name: {{ index . 1 }}
namespace: {{ default $root.Release.Namespace $more.namespace }}
labels:
  {{- include "mcmw.known" (merge $own (include "mcmw.known" $root.Values.commonLabels | fromYaml) (default dict $more.labels)) | nindent 2 }}
{{- with include "mcmw.known" (merge (dict) (default dict $more.annotations) $root.Values.commonAnnotations) | fromYaml }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Metadata of a pod. Takes (list $ COMPONENT VALUES) with podLabels and podAnnotations. Without the chart's version, which alone need not replace pods. */ -}}
{{- define "mcmw.podMetadata" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
labels:
  {{- include "mcmw.known" (merge (include "mcmw.selector" (list $root (index . 1)) | fromYaml) (default dict $values.podLabels) $root.Values.commonLabels) | nindent 2 }}
{{- with include "mcmw.known" (merge (dict) (default dict $values.podAnnotations) $root.Values.commonAnnotations) | fromYaml }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* The fields of a pod by their values, which have the same names but for topologySpread. Takes (list $ COMPONENT VALUES). */ -}}
{{- define "mcmw.podSpec" -}}
{{- $values := index . 2 -}}
{{- $selector := include "mcmw.selector" (list (index . 0) (index . 1)) | fromYaml -}}
{{- $spec := dict "enableServiceLinks" false "securityContext" $values.podSecurityContext "imagePullSecrets" (index . 0).Values.imagePullSecrets -}}
{{- $_ := set $spec "nodeSelector" (include "mcmw.known" (default dict $values.nodeSelector) | fromYaml) -}}
{{- $spread := list -}}
{{- range default $values.topologySpread $values.topologySpreadConstraints -}}
{{- $spread = append $spread (merge (dict) . (dict "labelSelector" (dict "matchLabels" $selector))) -}}
{{- end -}}
{{- $_ := set $spec "topologySpreadConstraints" $spread -}}
{{- range list "tolerations" "affinity" "priorityClassName" "schedulerName" "runtimeClassName" "hostAliases" "dnsPolicy" "dnsConfig" "initContainers" -}}
{{- $_ := set $spec . (get $values .) -}}
{{- end -}}
{{- range $key, $value := $spec -}}
{{- if and (empty $value) (ne $key "enableServiceLinks") -}}{{- $_ := unset $spec $key -}}{{- end -}}
{{- end -}}
{{- toYaml $spec -}}
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

{{- /* A volume with a Secret, or with only its KEY as FILE. Takes (list VOLUME SECRET) or (list VOLUME SECRET KEY FILE). */ -}}
{{- define "mcmw.secret" -}}
{{- $secret := dict "secretName" (index . 1) "defaultMode" 0440 -}}
{{- if gt (len .) 2 -}}{{- $_ := set $secret "items" (list (dict "key" (index . 2) "path" (index . 3))) -}}{{- end -}}
- {{ dict "name" (index . 0) "secret" $secret | toYaml | nindent 2 | trim }}
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

{{- /* Mounts of volumes, below /etc/mcmw. Takes them as text. */ -}}
{{- define "mcmw.mounts" -}}
{{- range fromYamlArray . }}
- {name: {{ .name }}, mountPath: /etc/mcmw/{{ .name }}, readOnly: true}
{{- end }}
{{- end -}}

{{- /* What a client of mcmw needs for TLS and a password: flags of mcmw and mcmwlab, and the volumes with the files that they name.
Takes a mapping with tls {secretName, clientCertificate, name} and auth {secretName, key}. */ -}}
{{- define "mcmw.clientFlags" -}}
{{- if .tls.secretName }}
- --tls
- --tls-ca=/etc/mcmw/tls/ca.crt
{{- with .tls.name }}
- --tls-name={{ . }}
{{- end }}
{{- if .tls.clientCertificate }}
- --tls-cert=/etc/mcmw/tls/tls.crt
- --tls-key=/etc/mcmw/tls/tls.key
{{- end }}
{{- end }}
{{- if .auth.secretName }}
- --auth-file=/etc/mcmw/auth/user
{{- end }}
{{- end -}}

{{- define "mcmw.clientVolumes" -}}
{{- with .tls.secretName }}
{{ include "mcmw.secret" (list "tls" .) }}
{{- end }}
{{- if .auth.secretName }}
{{ include "mcmw.secret" (list "auth" .auth.secretName .auth.key "user") }}
{{- end }}
{{- end -}}
