{{- /* The repository of mcmwlab's image; that of a release is elsewhere. */ -}}
{{- define "mcmw.mcmwlab" -}}mcmwlab{{- end -}}

{{- /* The commands of a load: the first stores all keys, the last reads and writes them. Takes (list $ KEYS SIZE FLAGS). */ -}}
{{- define "mcmw.loadCommands" -}}
{{- $v := (index . 0).Values -}}
{{- $to := printf "--server %s --port %v --key-minimum 1 --key-maximum %v --data-size %v" $v.target.host $v.target.port (int (index . 1)) (int (index . 2)) -}}
{{- $secure := include "mcmw.clientFlags" $v | fromYamlArray | join " " -}}
{{- if eq $v.generator "mcmwlab" -}}
- {{ printf "/mcmwlab load %s %s --populate %s" $to $secure (index . 3) | squote }}
{{- else -}}
{{- $secure = $secure | replace "--tls-ca=" "--cacert=" | replace "--tls-name=" "--sni=" | replace "--tls-" "--" -}}
{{- $to = printf "memtier_benchmark --protocol memcache_text %s %s" $to $secure -}}
- {{ printf "%s --threads 1 --clients 1 --ratio 1:0 --key-pattern P:P --requests allkeys" $to | squote }}
- {{ printf "%s %s" $to (index . 3) | squote }}
{{- end -}}
{{- end -}}

{{- /* The spec of a pod that generates load. Takes (list $ COMPONENT COMMAND ARGS RESOURCES). */ -}}
{{- define "mcmw.loadPod" -}}
{{- $ := index . 0 -}}
{{- $v := $.Values -}}
{{- if and $v.auth.secretName (eq $v.generator "memtier") -}}
{{- fail "auth.secretName is set and generator is memtier, which cannot authenticate over the text protocol: expected generator=mcmwlab" -}}
{{- end -}}
{{- $lab := eq $v.generator "mcmwlab" -}}
{{- $volumes := include "mcmw.clientVolumes" $v -}}
{{- include "mcmw.podSpec" (list $ (index . 1) $v) }}
{{- with $v.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
automountServiceAccountToken: false
containers:
  - name: loadgen
    image: {{ include "mcmw.image" (list $ $v.image (ternary (include "mcmw.mcmwlab" $) "redislabs/memtier_benchmark" $lab) (ternary $.Chart.AppVersion "2.0.0" $lab)) | quote }}
    imagePullPolicy: {{ $v.image.pullPolicy }}
    command:
      {{- toYaml (index . 2) | nindent 6 }}
    {{- with index . 3 }}
    args:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    # Reports and histograms can be written here; kubectl cp copies them.
    workingDir: /tmp
    env:
      - {name: MCMW_HOST, value: {{ $v.target.host | quote }}}
      - {name: MCMW_PORT, value: {{ $v.target.port | quote }}}
    resources:
      {{- include "mcmw.known" (index . 4) | nindent 6 }}
    securityContext:
      {{- toYaml $v.securityContext | nindent 6 }}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
      {{- include "mcmw.mounts" $volumes | nindent 6 }}
volumes:
  - {name: tmp, emptyDir: {}}
  {{- $volumes | nindent 2 }}
{{- end -}}
