{{- /* The release's own name where it says "spanprof" already, so that two releases stand side by side. */ -}}
{{- define "spanprof.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- /* Of what belongs to no namespace: releases of one name in two namespaces are told apart. */ -}}
{{- define "spanprof.clusterName" -}}
{{ .Release.Namespace }}-{{ include "spanprof.fullname" . }}
{{- end }}

{{- define "spanprof.labels" -}}
app.kubernetes.io/name: spanprof
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "spanprof.selector" -}}
app.kubernetes.io/name: spanprof
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Numbers of values files come as floating point, and large ones would be written as 1e+06. */ -}}
{{- define "spanprof.plain" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end }}

{{- /* As OTEL_EXPORTER_OTLP_HEADERS has them: percent-encoded, so that a value may hold a comma. */ -}}
{{- define "spanprof.headers" -}}
{{- $pairs := list -}}
{{- range $name, $value := .Values.headers.values -}}
{{- $pairs = append $pairs (printf "%s=%s" $name (include "spanprof.plain" $value | urlquery | replace "+" "%20")) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end }}

{{- /* What a schema says badly: values that contradict each other. */ -}}
{{- define "spanprof.check" -}}
{{- $tls := .Values.tls -}}
{{- if and .Values.headers.values .Values.headers.secret }}{{ fail "headers.values and headers.secret: set one of them; a Secret of yours is not added to" }}{{ end -}}
{{- if and .Values.podsLabels (not .Values.podsFromApi) }}{{ fail "podsLabels: labels come from the API server; set podsFromApi=true, too" }}{{ end -}}
{{- with .Values.appArmorProfile }}
{{- if not .type }}{{ fail "appArmorProfile.type: RuntimeDefault, Unconfined or Localhost" }}{{ end -}}
{{- if ne (eq .type "Localhost") (not (empty .localhostProfile)) }}{{ fail "appArmorProfile.localhostProfile: the name of a profile of the node, with type Localhost alone" }}{{ end -}}
{{- end -}}
{{- if ne (empty $tls.certificate) (empty $tls.key) }}{{ fail "tls.certificate and tls.key: set both, to keys of tls.secret, or neither" }}{{ end -}}
{{- if and $tls.certificate (not $tls.secret) }}{{ fail "tls.secret: name the Secret whose keys tls.certificate and tls.key are" }}{{ end -}}
{{- if and $tls.secret (not $tls.ca) (not $tls.certificate) }}{{ fail "tls.ca, tls.certificate: name at least one key of tls.secret" }}{{ end -}}
{{- if and $tls.secret (hasPrefix "http:" .Values.endpoint) }}{{ fail (print "endpoint: tls.secret is for https, and this is " .Values.endpoint) }}{{ end -}}
{{- end }}

{{- /* The last four are for the start: it gives its spool away, becomes another user, and keeps the first six alone. */ -}}
{{- define "spanprof.capabilities" -}}
["BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH", "CHECKPOINT_RESTORE", "SYSLOG", "SETUID", "SETGID", "SETPCAP", "CHOWN"{{ if .Values.paranoidNodes }}, "SYS_ADMIN"{{ end }}]
{{- end }}

{{- /* Kubernetes has a field of the container since 1.30; before, an annotation of the pod. */ -}}
{{- define "spanprof.appArmorIsField" -}}
{{- if semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version }}yes{{ end -}}
{{- end }}

{{- define "spanprof.appArmorAnnotation" -}}
{{- with .Values.appArmorProfile -}}
{{- if eq .type "Localhost" }}localhost/{{ .localhostProfile }}{{ else }}{{ ternary "unconfined" "runtime/default" (eq .type "Unconfined") }}{{ end -}}
{{- end -}}
{{- end }}

{{- define "spanprof.exe" -}}
{{- $exe := .Values.targets.exe -}}
{{- if .Values.targets.java }}{{ $exe = append $exe "java" }}{{ end -}}
{{- if .Values.targets.python }}{{ $exe = concat $exe (list "python" "python[23]*") }}{{ end -}}
{{- join ", " $exe -}}
{{- end }}
