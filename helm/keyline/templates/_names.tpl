{{/* Names and labels. Selectors may never change: Kubernetes refuses an upgrade that does. */}}

{{- define "keyline.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 45 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 45 characters, so that the longest name made from it stays below 63. */}}
{{- define "keyline.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "keyline.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "keyline.selector" -}}
app.kubernetes.io/name: {{ include "keyline.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "keyline.labels" -}}
{{- with .Values.commonLabels -}}
{{ toYaml . }}
{{ end -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: keyline
{{ include "keyline.selector" . }}
{{- end -}}

{{- define "keyline.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "keyline.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "keyline.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "keyline.tlsSecret" -}}
{{- default (printf "%s-tls" (include "keyline.fullname" .)) .Values.tls.existingSecret -}}
{{- end -}}

{{- define "keyline.replicasSecret" -}}
{{- default (printf "%s-replicas" (include "keyline.fullname" .)) .Values.replicas.existingSecret -}}
{{- end -}}

{{/* Names of a Service as clients may write them, one a line. */}}
{{- define "keyline.serviceNames" -}}
{{- $domain := .root.Values.pulsar.clusterDomain -}}
{{- $ns := .root.Release.Namespace -}}
{{- range $host := list .name (printf "%s.%s" .name $ns) (printf "%s.%s.svc" .name $ns) (printf "%s.%s.svc.%s" .name $ns $domain) }}
- {{ $host }}
{{- end -}}
{{- end -}}
