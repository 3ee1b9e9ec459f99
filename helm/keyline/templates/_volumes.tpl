{{/* Volumes and where they are mounted. Secrets are mounted whole, not by subPath: only so do changes arrive. */}}

{{- define "keyline.mounts" -}}
- name: config
  mountPath: /etc/keyline/config
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- if include "keyline.tokenSecret" . }}
- name: token
  mountPath: /etc/keyline/token
  readOnly: true
{{- end }}
{{- if .Values.proxyRoleToken.existingSecret }}
- name: proxy-role
  mountPath: /etc/keyline/proxy-role
  readOnly: true
{{- end }}
{{- if include "keyline.ownerMode" . }}
- name: replicas
  mountPath: /etc/keyline/replicas
  readOnly: true
{{- end }}
{{- if include "keyline.pulsar.caSecret" . }}
- name: pulsar-ca
  mountPath: /etc/keyline/pulsar-ca
  readOnly: true
{{- end }}
{{- if .Values.adminTokens.enabled }}
- name: admin-token
  mountPath: /etc/keyline/admin-token
  readOnly: true
{{- end }}
{{- if .Values.tls.enabled }}
- name: tls
  mountPath: /etc/keyline/tls
  readOnly: true
{{- if .Values.tls.clientCa.existingSecret }}
- name: client-ca
  mountPath: /etc/keyline/client-ca
  readOnly: true
{{- end }}
{{- end }}
{{- if or .Values.journal.volume.enabled .Values.journal.objectStore.url }}
- name: journal
  mountPath: /var/lib/keyline
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "keyline.volumes" -}}
- name: config
  configMap:
    name: {{ include "keyline.fullname" . }}
- name: tmp
  emptyDir: {}
{{- include "keyline.brokerVolumes" . }}
{{- if include "keyline.ownerMode" . }}
- name: replicas
  secret:
    secretName: {{ include "keyline.replicasSecret" . }}
    items:
      {{- range list "secret" "tls.crt" "tls.key" "ca.crt" }}
      - key: {{ . }}
        path: {{ . }}
      {{- end }}
{{- end }}
{{- if .Values.tls.enabled }}
- name: tls
  secret:
    secretName: {{ include "keyline.tlsSecret" . }}
    items:
      - key: tls.crt
        path: tls.crt
      - key: tls.key
        path: tls.key
{{- with .Values.tls.clientCa }}
{{- if .existingSecret }}
- name: client-ca
  secret:
    secretName: {{ .existingSecret }}
    items:
      - key: {{ .key }}
        path: {{ .key }}
{{- end }}
{{- end }}
{{- end }}
{{- include "keyline.journalVolume" . }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Files from the brokers' release: the gateway's tokens, authorities, the key of tokens. */}}
{{- define "keyline.brokerVolumes" -}}
{{- with include "keyline.tokenSecret" . }}
- name: token
  secret:
    secretName: {{ . }}
    items:
      - key: {{ include "keyline.tokenKey" $ }}
        path: token
{{- end }}
{{- with .Values.proxyRoleToken }}
{{- if .existingSecret }}
- name: proxy-role
  secret:
    secretName: {{ .existingSecret }}
    items:
      - key: {{ .key }}
        path: token
{{- end }}
{{- end }}
{{- with include "keyline.pulsar.caSecret" . }}
- name: pulsar-ca
  secret:
    secretName: {{ . }}
    items:
      - key: {{ $.Values.pulsar.tls.caKey }}
        path: {{ $.Values.pulsar.tls.caKey }}
{{- end }}
{{- with include "keyline.adminTokenSecret" . }}
- name: admin-token
  secret:
    secretName: {{ . }}
    items:
      - key: {{ include "keyline.adminTokenKey" $ }}
        path: {{ include "keyline.adminTokenKey" $ }}
{{- end }}
{{- end -}}

{{/* A StatefulSet's own claims are no volumes of its pod template. */}}
{{- define "keyline.journalVolume" -}}
{{- if .Values.journal.volume.enabled }}
{{- with .Values.journal.volume.existingClaim }}
- name: journal
  persistentVolumeClaim:
    claimName: {{ . }}
{{- end }}
{{- else if .Values.journal.objectStore.url }}
- name: journal
  emptyDir: {}
{{- end }}
{{- end -}}
