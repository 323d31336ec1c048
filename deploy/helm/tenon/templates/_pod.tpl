{{/* Metadata of a pod. Argument: root, component, of (the values of the component). */}}
{{- define "tenon.podMetadata" -}}
labels:
  {{- include "tenon.labels" . | nindent 2 }}
{{- with .of.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What the pods of all components have in common. Argument: root, component, of. */}}
{{- define "tenon.podSpec" -}}
automountServiceAccountToken: false
# Kubernetes would set TENON_PORT to the address of the Service `tenon`.
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  seccompProfile: { type: RuntimeDefault }
volumes:
  - name: tmp
    emptyDir: { sizeLimit: 256Mi }
  {{- with .root.Values.certificates.existingSecret }}
  - name: certificates
    secret: { secretName: {{ . }} }
  {{- end }}
{{- with .of.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What the pods of API and worker have in common. Argument: root, component, of. */}}
{{- define "tenon.servingPodSpec" -}}
{{ include "tenon.podSpec" . }}
serviceAccountName: {{ include "tenon.name" .root }}
# Longer than the drain of a process, at the end of which a worker gives up its last steps.
terminationGracePeriodSeconds: {{ add .root.Values.settings.TENON_DRAIN_DELAY .root.Values.settings.TENON_DRAIN_LIMIT 15 }}
{{- if .of.topologySpread.enabled }}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- include "tenon.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* What all containers have in common. They set `args`, since the image begins with an init that ends orphans. Argument: root, of. */}}
{{- define "tenon.container" -}}
image: {{ include "tenon.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
resources:
  {{- toYaml .of.resources | nindent 2 }}
volumeMounts:
  - { name: tmp, mountPath: /tmp }
  {{- if .root.Values.certificates.existingSecret }}
  - { name: certificates, mountPath: /etc/tenon/certificates, readOnly: true }
  {{- end }}
{{- end }}

{{- define "tenon.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* Probes. A server behind a process that is away is no reason to restart it: /healthz asks none. Argument: the name of the port. */}}
{{- define "tenon.probes" -}}
startupProbe:
  httpGet: { path: /startupz, port: {{ . }} }
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 120
livenessProbe:
  httpGet: { path: /healthz, port: {{ . }} }
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /readyz, port: {{ . }} }
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}
