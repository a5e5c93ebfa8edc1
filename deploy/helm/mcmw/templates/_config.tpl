{{- /* The configuration file that mcmw watches. */ -}}
{{- define "mcmw.file" -}}
{{- $file := ternary dict (dict "servers" .Values.servers) (hasKey .Values.config "pools") -}}
{{- $live := splitList " " (include "mcmw.liveOptions" .) -}}
{{- range $name, $value := .Values.config -}}
{{- if has $name $live -}}{{- $_ := set $file $name $value -}}{{- end -}}
{{- end -}}
{{- range include "mcmw.pools" . | fromYamlArray -}}
{{- $servers := dict "servers" (list (printf "%s+_memcache._tcp.%s" (ternary "k8s" "srv" (eq .watched "true")) .host)) -}}
{{- if .name -}}
{{- $_ := unset $file "servers" -}}
{{- $servers = dict "pools" (dict .name $servers) "routes" (get $file "routes" | default (list (dict "default" .name))) -}}
{{- end -}}
{{- $file = include "mcmw.overlay" (list $file $servers) | fromYaml -}}
{{- end -}}
{{- if and .Values.memcached.enabled (not (hasKey .Values.config "writers")) (eq (include "mcmw.severalPods" .) "true") -}}
{{- $_ := set $file "writers" "several" -}}
{{- end -}}
{{- toYaml $file -}}
{{- end -}}

{{- /* Whether there can be several pods of mcmw. They must agree to keep replicas equal, so the chart sets writers: several. The user's own
servers may be too old for that: with them, mcmw decides by their versions. */ -}}
{{- define "mcmw.severalPods" -}}
{{- or (eq .Values.kind "DaemonSet") .Values.autoscaling.enabled .Values.keda.enabled (gt (int (include "mcmw.replicas" .)) 1) -}}
{{- end -}}

{{- /* The environment variables of mcmw's container, by name: the options that are fixed for the life of a pod. The drain timeout is one of
them, because it must change together with the pod's grace period. */ -}}
{{- define "mcmw.env" -}}
{{- $env := dict
  "MCMW_CONFIG" (dict "value" "/etc/mcmw/config/mcmw.yaml")
  "MCMW_LISTEN" (dict "value" ":11311")
  "MCMW_ADMIN" (dict "value" (printf ":%d" (int .Values.adminPort)))
  "MCMW_DRAIN_TIMEOUT" (dict "value" (printf "%ds" (int .Values.drain.timeoutSeconds)))
-}}
{{- if .Values.socketDirectory -}}
{{- $_ := set $env "MCMW_LISTEN" (dict "value" ":11311,unix:/run/mcmw/mcmw.sock") -}}
{{- $_ := set $env "MCMW_UNIX_MASK" (dict "value" "0777") -}}
{{- end -}}
{{- $limits := default dict .Values.resources.limits -}}
{{- $memory := include "mcmw.bytes" $limits.memory | int64 -}}
{{- if $memory -}}
{{- $_ := set $env "GOMEMLIMIT" (dict "value" (mulf $memory 0.9 | floor | int64 | toString)) -}}
{{- $_ := set $env "MCMW_CLIENT_MEMORY" (dict "value" (div $memory 8 | toString)) -}}
{{- end -}}
{{- if $limits.cpu -}}
{{- $_ := set $env "GOMAXPROCS" (dict "valueFrom" (dict "resourceFieldRef" (dict "resource" "limits.cpu" "containerName" "mcmw"))) -}}
{{- end -}}
{{- with .Values.tls -}}
{{- if .secretName -}}
{{- $_ := set $env "MCMW_TLS_CERT" (dict "value" "/etc/mcmw/tls/tls.crt") -}}
{{- $_ := set $env "MCMW_TLS_KEY" (dict "value" "/etc/mcmw/tls/tls.key") -}}
{{- if .clientCA -}}{{- $_ := set $env "MCMW_TLS_CLIENT_CA" (dict "value" "/etc/mcmw/tls/ca.crt") -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Values.auth.secretName -}}{{- $_ := set $env "MCMW_AUTH_FILE" (dict "value" "/etc/mcmw/auth/users") -}}{{- end -}}
{{- with .Values.serverTLS -}}
{{- if .enabled -}}
{{- $_ := set $env "MCMW_SERVER_TLS" (dict "value" "true") -}}
{{- if and .secretName .ca -}}{{- $_ := set $env "MCMW_SERVER_TLS_CA" (dict "value" "/etc/mcmw/server-tls/ca.crt") -}}{{- end -}}
{{- if and .secretName .clientCertificate -}}
{{- $_ := set $env "MCMW_SERVER_TLS_CERT" (dict "value" "/etc/mcmw/server-tls/tls.crt") -}}
{{- $_ := set $env "MCMW_SERVER_TLS_KEY" (dict "value" "/etc/mcmw/server-tls/tls.key") -}}
{{- end -}}
{{- $name := .name -}}
{{- range include "mcmw.pools" $ | fromYamlArray -}}{{- $name = default .host $name -}}{{- end -}}
{{- if $name -}}{{- $_ := set $env "MCMW_SERVER_TLS_NAME" (dict "value" $name) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Values.serverAuth.secretName -}}{{- $_ := set $env "MCMW_SERVER_AUTH_FILE" (dict "value" "/etc/mcmw/server-auth/user") -}}{{- end -}}
{{- $reads := list (get .Values.config "read") -}}
{{- range get .Values.config "pools" | default dict -}}{{- $reads = append $reads (get (. | default dict) "read") -}}{{- end -}}
{{- if has "nearest" $reads -}}
{{- $_ := set $env "MCMW_ZONE" (dict "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.labels['topology.kubernetes.io/zone']"))) -}}
{{- end -}}
{{- $live := splitList " " (include "mcmw.liveOptions" .) -}}
{{- range $name, $value := .Values.config -}}
{{- if not (has $name $live) -}}
{{- $_ := set $env (printf "MCMW_%s" ($name | upper | replace "-" "_")) (dict "value" (include "mcmw.text" $value)) -}}
{{- end -}}
{{- end -}}
{{- if hasKey .Values.config "procs" -}}{{- $_ := unset $env "GOMAXPROCS" -}}{{- end -}}
{{- range .Values.extraEnv -}}
{{- $_ := set $env .name (omit . "name") -}}
{{- end -}}
{{- range $name := keys $env | sortAlpha }}
- {{ merge (dict "name" $name) (index $env $name) | toYaml | nindent 2 | trim }}
{{- end -}}
{{- end -}}

{{- /* The Secrets and the ConfigMap as volumes, by name. */ -}}
{{- define "mcmw.volumes" -}}
- name: config
  configMap:
    name: {{ include "mcmw.fullname" . }}
{{- with .Values.tls.secretName }}
{{ include "mcmw.secret" (list "tls" .) }}
{{- end }}
{{- with .Values.auth.secretName }}
{{ include "mcmw.secret" (list "auth" . $.Values.auth.key "users") }}
{{- end }}
{{- if and .Values.serverTLS.enabled .Values.serverTLS.secretName }}
{{ include "mcmw.secret" (list "server-tls" .Values.serverTLS.secretName) }}
{{- end }}
{{- with .Values.serverAuth.secretName }}
{{ include "mcmw.secret" (list "server-auth" . $.Values.serverAuth.key "user") }}
{{- end }}
{{- end -}}
