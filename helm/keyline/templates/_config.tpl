{{/* The gateway's configuration: what follows from the other values, and `config` over it. */}}

{{- define "keyline.severalReplicas" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicaCount) 1) -}}true{{- end -}}
{{- end -}}

{{- define "keyline.groups" -}}
{{- if hasKey .Values.config "groups_enabled" -}}
{{- if .Values.config.groups_enabled -}}true{{- end -}}
{{- else -}}
{{- include "keyline.severalReplicas" . -}}
{{- end -}}
{{- end -}}

{{- define "keyline.ownerMode" -}}
{{- if and (include "keyline.groups" .) (eq "owner" (get .Values.config "groups_mode" | default "owner")) -}}true{{- end -}}
{{- end -}}

{{/* `listen` cannot be switched off: a plain listener that is not exposed goes to loopback. */}}
{{- define "keyline.plain" -}}
{{- if or (not .Values.tls.enabled) .Values.tls.keepPlain -}}true{{- end -}}
{{- end -}}

{{- define "keyline.adminScheme" -}}
{{- ternary "https" "http" (get .Values.config "admin_tls" | default false) -}}
{{- end -}}

{{- define "keyline.drainSeconds" -}}
{{- $facts := .Files.Get "files/settings.json" | fromJson -}}
{{- $drain := $facts.defaults.drain_timeout_s -}}
{{- if hasKey .Values.config "drain_timeout_s" }}{{ $drain = .Values.config.drain_timeout_s }}{{ end -}}
{{- $drain | float64 | ceil | int -}}
{{- end -}}

{{/* After the drain the gateway closes connections and finishes the journal's last file. */}}
{{- define "keyline.graceSecondsLeast" -}}
{{- add .Values.shutdown.preStopSeconds (include "keyline.drainSeconds" . | int) 20 -}}
{{- end -}}

{{- define "keyline.graceSeconds" -}}
{{- .Values.shutdown.terminationGracePeriodSeconds | int | default (include "keyline.graceSecondsLeast" . | int) -}}
{{- end -}}

{{/* Everything, as JSON of a map. */}}
{{- define "keyline.settings" -}}
{{- $settings := dict -}}
{{- $_ := set $settings "listen" (printf "%s:6660" (ternary .Values.listenHost "127.0.0.1" (eq "true" (include "keyline.plain" .)))) -}}
{{- $_ := set $settings "admin_listen" (printf "%s:8750" .Values.listenHost) -}}
{{- $_ := set $settings "groups_enabled" (eq "true" (include "keyline.groups" .)) -}}
{{- if include "keyline.ownerMode" . -}}
{{- $_ := set $settings "groups_mode" "owner" -}}
{{- $_ := set $settings "replica_listen" (printf "%s:6670" .Values.listenHost) -}}
{{- $_ := set $settings "replica_secret_file" "/etc/keyline/replicas/secret" -}}
{{- $_ := set $settings "replica_tls_certificate_file" "/etc/keyline/replicas/tls.crt" -}}
{{- $_ := set $settings "replica_tls_key_file" "/etc/keyline/replicas/tls.key" -}}
{{- $_ := set $settings "replica_tls_ca_file" "/etc/keyline/replicas/ca.crt" -}}
{{- end -}}
{{- if .Values.pulsar.release -}}
{{- $_ := set $settings "broker_url" (include "keyline.pulsar.brokerUrl" .) -}}
{{- $_ := set $settings "broker_admin_url" (include "keyline.pulsar.adminUrl" .) -}}
{{- $_ := set $settings "broker_is_proxy" (eq .Values.pulsar.component "proxy") -}}
{{- end -}}
{{- if include "keyline.pulsar.caSecret" . -}}
{{- $_ := set $settings "broker_tls_ca_file" (printf "/etc/keyline/pulsar-ca/%s" .Values.pulsar.tls.caKey) -}}
{{- end -}}
{{- if include "keyline.tokenSecret" . -}}
{{- $_ := set $settings "broker_token_file" "/etc/keyline/token/token" -}}
{{- end -}}
{{- if .Values.proxyRoleToken.existingSecret -}}
{{- $_ := set $settings "proxy_role_token_file" "/etc/keyline/proxy-role/token" -}}
{{- end -}}
{{- if .Values.adminTokens.enabled -}}
{{- $setting := ternary "admin_token_secret_file" "admin_token_public_key_file" .Values.adminTokens.symmetric -}}
{{- $_ := set $settings $setting (printf "/etc/keyline/admin-token/%s" (include "keyline.adminTokenKey" .)) -}}
{{- end -}}
{{- if .Values.tls.enabled -}}
{{- $_ := set $settings "listen_tls" (printf "%s:6661" .Values.listenHost) -}}
{{- $_ := set $settings "tls_certificate_file" "/etc/keyline/tls/tls.crt" -}}
{{- $_ := set $settings "tls_key_file" "/etc/keyline/tls/tls.key" -}}
{{- if .Values.tls.clientCa.existingSecret -}}
{{- $_ := set $settings "tls_client_ca_file" (printf "/etc/keyline/client-ca/%s" .Values.tls.clientCa.key) -}}
{{- end -}}
{{- end -}}
{{- if .Values.journal.objectStore.url -}}
{{- $_ := set $settings "journal" .Values.journal.objectStore.url -}}
{{- $_ := set $settings "journal_spool_directory" "/var/lib/keyline/spool" -}}
{{- else if .Values.journal.volume.enabled -}}
{{- $_ := set $settings "journal" "/var/lib/keyline/journal" -}}
{{- end -}}
{{- range $name, $value := .Values.config -}}
{{- $_ := set $settings $name $value -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}

{{/* JSON's strings, numbers and lists are TOML's too. */}}
{{- define "keyline.toml" -}}
{{- range $name, $value := include "keyline.settings" . | fromJson -}}
{{ $name }} = {{ toJson $value }}
{{ end -}}
{{- end -}}
