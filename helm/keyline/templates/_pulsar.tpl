{{/* Names of objects in apache/pulsar-helm-chart, derived from the release's name. */}}

{{- define "keyline.pulsar.fullname" -}}
{{- $p := .Values.pulsar -}}
{{- if $p.fullname -}}
{{- $p.fullname -}}
{{- else -}}
{{- ternary $p.release (printf "%s-pulsar" $p.release) (contains "pulsar" $p.release) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "keyline.pulsar.namespace" -}}
{{- default .Release.Namespace .Values.pulsar.namespace -}}
{{- end -}}

{{/* The whole name, because that is what the release's certificates are made for. */}}
{{- define "keyline.pulsar.host" -}}
{{- printf "%s-%s.%s.svc.%s" (include "keyline.pulsar.fullname" .) .Values.pulsar.component (include "keyline.pulsar.namespace" .) .Values.pulsar.clusterDomain -}}
{{- end -}}

{{- define "keyline.pulsar.brokerUrl" -}}
{{- $scheme := ternary "pulsar+ssl" "pulsar" .Values.pulsar.tls.enabled -}}
{{- printf "%s://%s:%d" $scheme (include "keyline.pulsar.host" .) (ternary 6651 6650 .Values.pulsar.tls.enabled) -}}
{{- end -}}

{{/* Proxies' Services have the ports of the web, brokers' have those of their pods. */}}
{{- define "keyline.pulsar.adminUrl" -}}
{{- $proxy := eq .Values.pulsar.component "proxy" -}}
{{- $port := ternary (ternary 443 8443 $proxy) (ternary 80 8080 $proxy) .Values.pulsar.tls.enabled -}}
{{- printf "%s://%s:%d" (ternary "https" "http" .Values.pulsar.tls.enabled) (include "keyline.pulsar.host" .) $port -}}
{{- end -}}

{{- define "keyline.pulsar.caSecret" -}}
{{- if .Values.pulsar.tls.enabled -}}
{{- default (printf "%s-ca-tls" .Values.pulsar.release) .Values.pulsar.tls.caSecret -}}
{{- end -}}
{{- end -}}

{{- define "keyline.tokenSecret" -}}
{{- if .Values.brokerToken.existingSecret -}}
{{- .Values.brokerToken.existingSecret -}}
{{- else if .Values.pulsar.auth.jwt.enabled -}}
{{- printf "%s-token-%s" .Values.pulsar.release .Values.pulsar.auth.jwt.role -}}
{{- end -}}
{{- end -}}

{{/* The key that the brokers check clients' tokens with. */}}
{{- define "keyline.adminTokenSecret" -}}
{{- with .Values.adminTokens -}}
{{- if .enabled -}}
{{- default (printf "%s-token-%s-key" $.Values.pulsar.release (ternary "symmetric" "asymmetric" .symmetric)) .existingSecret -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "keyline.adminTokenKey" -}}
{{- ternary "SECRETKEY" "PUBLICKEY" .Values.adminTokens.symmetric -}}
{{- end -}}

{{- define "keyline.tokenKey" -}}
{{- ternary .Values.brokerToken.key "TOKEN" (ne .Values.brokerToken.existingSecret "") -}}
{{- end -}}
