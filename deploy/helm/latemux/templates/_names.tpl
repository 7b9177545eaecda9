{{- define "latemux.labels" -}}
app.kubernetes.io/name: latemux
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "latemux.name" -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{/* MiB that a pod needs: 1.1 times the sum of the budgets, plus 64. */}}
{{- define "latemux.memory" -}}
{{- $sum := 0 }}
{{- range .Values.memory }}{{ $sum = add $sum (int .) }}{{ end }}
{{- add (div (mul $sum 11) 10) 64 }}
{{- end }}
