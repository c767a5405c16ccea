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

{{- define "spanprof.exe" -}}
{{- $exe := .Values.targets.exe -}}
{{- if .Values.targets.java }}{{ $exe = append $exe "java" }}{{ end -}}
{{- if .Values.targets.python }}{{ $exe = concat $exe (list "python" "python[23]*") }}{{ end -}}
{{- join ", " $exe -}}
{{- end }}
