{{- /* The flags with which clients use the Service's TLS and password: mcmw's and mcmwlab's, or with (list $ "memtier") memtier_benchmark's. */ -}}
{{- define "mcmw.clientFlags" -}}
{{- $memtier := kindIs "slice" . -}}
{{- $root := . -}}
{{- if $memtier -}}{{- $root = first . -}}{{- end -}}
{{- $flag := ternary "--" "--tls-" $memtier -}}
{{- if $root.Values.tls.secretName }}
- --tls
- {{ ternary "--cacert" "--tls-ca" $memtier }}=/etc/mcmw/tls/ca.crt
{{- with $root.Values.tests.tlsName }}
- {{ ternary "--sni" "--tls-name" $memtier }}={{ . }}
{{- end }}
{{- if $root.Values.tls.clientCA }}
- {{ $flag }}cert=/etc/mcmw/tls/tls.crt
- {{ $flag }}key=/etc/mcmw/tls/tls.key
{{- end }}
{{- end }}
{{- if and $root.Values.auth.secretName (not $memtier) }}
- --auth-file=/etc/mcmw/auth/user
{{- end }}
{{- end -}}

{{- /* The volumes with the files that these flags name. */ -}}
{{- define "mcmw.clientVolumes" -}}
{{- if .Values.tls.secretName }}
- name: tls
  secret: {secretName: {{ default .Values.tls.secretName .Values.tests.tlsSecretName | quote }}, defaultMode: 0440}
{{- end }}
{{- with .Values.auth }}
{{- if .secretName }}
- name: auth
  secret:
    secretName: {{ .secretName | quote }}
    defaultMode: 0440
    items: [{key: {{ default .key $.Values.tests.authKey | quote }}, path: user}]
{{- end }}
{{- end }}
{{- end -}}

{{- define "mcmw.clientMounts" -}}
{{- range include "mcmw.clientVolumes" . | fromYamlArray }}
- {name: {{ .name }}, mountPath: /etc/mcmw/{{ .name }}, readOnly: true}
{{- end }}
{{- end -}}

{{- /* The commands of a load: the first stores all keys, the last reads and writes them. Takes (list $ KEYS SIZE FLAGS). */ -}}
{{- define "mcmw.loadCommands" -}}
{{- $root := index . 0 -}}
{{- $to := printf "--server %s --port %v --key-minimum 1 --key-maximum %v --data-size %v" (include "mcmw.host" $root) $root.Values.service.port (int (index . 1)) (int (index . 2)) -}}
{{- if eq $root.Values.loadgen.generator "mcmwlab" -}}
- {{ printf "/mcmwlab load %s %s --populate %s" $to (include "mcmw.clientFlags" $root | fromYamlArray | join " ") (index . 3) | squote }}
{{- else -}}
{{- $to = printf "memtier_benchmark --protocol memcache_text %s %s" $to (include "mcmw.clientFlags" (list $root "memtier") | fromYamlArray | join " ") -}}
- {{ printf "%s --threads 1 --clients 1 --ratio 1:0 --key-pattern P:P --requests allkeys" $to | squote }}
- {{ printf "%s %s" $to (index . 3) | squote }}
{{- end -}}
{{- end -}}
