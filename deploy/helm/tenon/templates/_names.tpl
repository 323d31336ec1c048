{{- define "tenon.name" -}}
{{- if contains "tenon" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-tenon{{ end }}
{{- end }}

{{/* Labels by which a selector finds the pods of a component. Argument: root, component. */}}
{{- define "tenon.selector" -}}
app.kubernetes.io/name: tenon
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of every object. Argument: root, component. */}}
{{- define "tenon.labels" -}}
{{ include "tenon.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "tenon.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}
