{{/* A value as text: Helm reads numbers of files as floating point, and would write large ones as 5e+10. */}}
{{- define "tenon.text" -}}
{{- if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- define "tenon.variable" -}}
- name: {{ .name }}
  value: {{ include "tenon.text" .value | quote }}
{{- end }}

{{/* Variables from a Secret: each one alone, since a process must not get the others. Argument: secret, keys. */}}
{{- define "tenon.secretVariables" -}}
{{- range .keys }}
- name: {{ . }}
  valueFrom:
    secretKeyRef: { name: {{ $.secret }}, key: {{ . }} }
{{- end }}
{{- end }}

{{/* Variables of API and worker. */}}
{{- define "tenon.environment" -}}
{{- range $name, $value := .Values.settings }}
{{ include "tenon.variable" (dict "name" $name "value" $value) }}
{{- end }}
- name: TENON_OPS_LISTEN
  value: 0.0.0.0:9464
{{- with .Values.secrets.platform }}
{{- $required := list "TENON_MASTER_KEY" "DATABASE_APP_URL" "S3_ACCESS_KEY_ID" "S3_SECRET_ACCESS_KEY" "REDIS_URL" }}
{{- include "tenon.secretVariables" (dict "secret" .existingSecret "keys" (concat $required .optionalKeys)) }}
{{- end }}
{{- end }}

{{/* Variables of the migration: those of the API would be too many rights, and those of Temporal it needs. */}}
{{- define "tenon.migrationEnvironment" -}}
{{- range $name, $value := .Values.settings }}
{{- if or (hasPrefix "TEMPORAL_" $name) (has $name (list "TENON_KEY_PROVIDER" "TENON_KMS_KEY_ID")) }}
{{ include "tenon.variable" (dict "name" $name "value" $value) }}
{{- end }}
{{- end }}
{{- $shared := list "TENON_MASTER_KEY" }}
{{- range .Values.secrets.platform.optionalKeys }}
{{- if hasPrefix "TEMPORAL_" . }}{{ $shared = append $shared . }}{{ end }}
{{- end }}
{{- include "tenon.secretVariables" (dict "secret" .Values.secrets.platform.existingSecret "keys" $shared) }}
{{- $own := list "DATABASE_URL" "TENON_APP_PASSWORD" "TENON_BUILDER_PASSWORD" }}
{{- include "tenon.secretVariables" (dict "secret" .Values.secrets.migrate.existingSecret "keys" $own) }}
{{- end }}
