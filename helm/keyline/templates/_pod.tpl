{{/* The pod, the same for both kinds of workload. */}}

{{- define "keyline.pod" -}}
metadata:
  labels:
    {{- include "keyline.selector" . | nindent 4 }}
    {{- if eq .Values.monitoring.scrape.kind "annotations" }}
    # Scrape jobs for annotated pods copy pods' labels: the job is then called what alerts and dashboards call it.
    job: keyline
    {{- end }}
    {{- with .Values.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # The gateway reads its configuration once, so a new one must make new pods.
    checksum/config: {{ include "keyline.toml" . | sha256sum }}
    {{- if eq .Values.monitoring.scrape.kind "annotations" }}
    prometheus.io/scrape: "true"
    prometheus.io/path: /metrics
    prometheus.io/port: "8750"
    prometheus.io/scheme: {{ include "keyline.adminScheme" . }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "keyline.serviceAccountName" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "keyline.graceSeconds" . }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  {{- with .Values.extraInitContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: keyline
      {{- include "keyline.container" . | nindent 6 }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "keyline.volumes" . | nindent 4 }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    - {{- toYaml . | nindent 6 }}
      {{- if not .labelSelector }}
      labelSelector:
        matchLabels:
          {{- include "keyline.selector" $ | nindent 10 }}
      {{- end }}
    {{- end }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "keyline.container" -}}
image: {{ include "keyline.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: [keyline]
args: [serve]
securityContext:
  {{- toYaml .Values.containerSecurityContext | nindent 2 }}
env:
  - name: KEYLINE_CONFIG
    value: /etc/keyline/config/keyline.toml
  - name: KEYLINE_REPLICA_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  {{- if include "keyline.ownerMode" . }}
  - name: POD_IP
    valueFrom:
      fieldRef:
        fieldPath: status.podIP
  - name: KEYLINE_REPLICA_ADDRESS
    value: {{ ternary "[$(POD_IP)]:6670" "$(POD_IP):6670" (contains ":" .Values.listenHost) | quote }}
  {{- end }}
  {{- with .Values.journal.keySecret }}
  {{- if .existingSecret }}
  - name: KEYLINE_JOURNAL_KEY_SECRET
    valueFrom:
      secretKeyRef:
        name: {{ .existingSecret }}
        key: {{ .key }}
  {{- end }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if or .Values.journal.objectStore.credentialsSecret .Values.extraEnvFrom }}
envFrom:
  {{- with .Values.journal.objectStore.credentialsSecret }}
  - secretRef:
      name: {{ . }}
  {{- end }}
  {{- with .Values.extraEnvFrom }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
ports:
  {{- if include "keyline.plain" . }}
  - name: pulsar
    containerPort: 6660
  {{- end }}
  {{- if .Values.tls.enabled }}
  - name: pulsarssl
    containerPort: 6661
  {{- end }}
  - name: admin
    containerPort: 8750
  {{- if include "keyline.ownerMode" . }}
  - name: replicas
    containerPort: 6670
  {{- end }}
startupProbe:
  {{- include "keyline.probe" (list . "/livez" .Values.probes.startup) | nindent 2 }}
livenessProbe:
  {{- include "keyline.probe" (list . "/livez" .Values.probes.liveness) | nindent 2 }}
readinessProbe:
  {{- include "keyline.probe" (list . "/readyz" .Values.probes.readiness) | nindent 2 }}
{{- if .Values.shutdown.preStopSeconds }}
lifecycle:
  preStop:
    # The gateway stops accepting at SIGTERM; until every node has removed the pod, clients still connect to it.
    {{- if semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version }}
    sleep:
      seconds: {{ .Values.shutdown.preStopSeconds }}
    {{- else }}
    exec:
      command: [python3, -c, "import time; time.sleep({{ .Values.shutdown.preStopSeconds }})"]
    {{- end }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  {{- include "keyline.mounts" . | nindent 2 }}
{{- end -}}

{{- define "keyline.probe" -}}
{{- $probe := index . 2 -}}
httpGet:
  path: {{ index . 1 }}
  port: admin
  scheme: {{ include "keyline.adminScheme" (index . 0) | upper }}
periodSeconds: {{ $probe.periodSeconds }}
timeoutSeconds: {{ $probe.timeoutSeconds }}
failureThreshold: {{ $probe.failureThreshold }}
{{- end -}}
