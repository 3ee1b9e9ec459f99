{{/* The pod of `helm test`. Clients that must show a certificate need one that the chart does not have. */}}

{{- define "keyline.smokes" -}}
{{- if and .Values.smoke.enabled (or (include "keyline.plain" .) (not .Values.tls.clientCa.existingSecret)) -}}true{{- end -}}
{{- end -}}

{{/* Not the gateway's selector, or Services would send clients here. */}}
{{- define "keyline.smokeLabels" -}}
app.kubernetes.io/name: {{ include "keyline.name" . }}-smoke
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: smoke
{{- end -}}

{{- define "keyline.serviceUrl" -}}
{{- $tls := not (include "keyline.plain" .) -}}
{{- $host := printf "%s.%s.svc" (include "keyline.fullname" .) .Release.Namespace -}}
{{- printf "%s://%s:%d" (ternary "pulsar+ssl" "pulsar" $tls) $host (ternary .Values.service.ports.pulsarssl .Values.service.ports.pulsar $tls | int) -}}
{{- end -}}
