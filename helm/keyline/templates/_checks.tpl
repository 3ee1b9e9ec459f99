{{/* Checks beyond the schema. Each failure names the values and a valid alternative. */}}

{{- define "keyline.check" -}}
{{- include "keyline.check.owned" . -}}
{{- include "keyline.check.broker" . -}}
{{- include "keyline.check.proxyRole" . -}}
{{- include "keyline.check.replicas" . -}}
{{- include "keyline.check.secrets" . -}}
{{- include "keyline.check.journal" . -}}
{{- include "keyline.check.numbers" . -}}
{{- include "keyline.check.life" . -}}
{{- include "keyline.check.network" . -}}
{{- include "keyline.check.ingress" . -}}
{{- include "keyline.check.rules" . -}}
{{- end -}}

{{- define "keyline.check.owned" -}}
{{- $why := dict
  "listen" "the chart sets it; choose the host by listenHost and the port that clients see by service.ports.pulsar"
  "admin_listen" "the chart sets it; choose the host by listenHost and the port of the Service by service.ports.admin"
  "listen_tls" "the chart sets it where tls.enabled is true"
  "tls_certificate_file" "name the Secret in tls.existingSecret, or let cert-manager make it (tls.certManager)"
  "tls_key_file" "name the Secret in tls.existingSecret, or let cert-manager make it (tls.certManager)"
  "tls_client_ca_file" "name the Secret in tls.clientCa.existingSecret"
  "replica_name" "each replica is named after its pod"
  "replica_listen" "the chart sets it; choose the host by listenHost"
  "replica_address" "each replica is reached at its pod's address"
  "replica_secret_file" "name the Secret in replicas.existingSecret, or let the chart make it"
  "replica_tls_certificate_file" "name the Secret in replicas.existingSecret, or let the chart make it"
  "replica_tls_key_file" "name the Secret in replicas.existingSecret, or let the chart make it"
  "replica_tls_ca_file" "name the Secret in replicas.existingSecret, or let the chart make it"
  "broker_token" "it would be readable in a ConfigMap; put it into a Secret and name that in brokerToken.existingSecret"
  "journal_key_secret" "it would be readable in a ConfigMap; put it into a Secret and name that in journal.keySecret.existingSecret"
-}}
{{- range $name, $reason := $why -}}
{{- if hasKey $.Values.config $name -}}
{{- fail (printf "config.%s cannot be set here: %s." $name $reason) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "keyline.check.broker" -}}
{{- if not (or .Values.pulsar.release (hasKey .Values.config "broker_url")) -}}
{{- fail "The gateway does not know its brokers: set pulsar.release to the name of the Pulsar release beside it, or config.broker_url." -}}
{{- end -}}
{{- if not .Values.pulsar.release -}}
{{- if and .Values.pulsar.tls.enabled (not .Values.pulsar.tls.caSecret) -}}
{{- fail "pulsar.tls.enabled needs pulsar.tls.caSecret where no pulsar.release is named: the name of the Secret is made from the release's." -}}
{{- end -}}
{{- if and .Values.pulsar.auth.jwt.enabled (not .Values.brokerToken.existingSecret) -}}
{{- fail "pulsar.auth.jwt.enabled needs brokerToken.existingSecret where no pulsar.release is named: the name of the Secret is made from the release's." -}}
{{- end -}}
{{- if and .Values.adminTokens.enabled (not .Values.adminTokens.existingSecret) -}}
{{- fail "adminTokens.enabled needs adminTokens.existingSecret where no pulsar.release is named: the name of the Secret is made from the release's." -}}
{{- end -}}
{{- end -}}
{{- if and (include "keyline.tokenSecret" .) (hasKey .Values.config "broker_token_file") -}}
{{- fail "config.broker_token_file and a token from a Secret exclude each other: leave brokerToken.existingSecret empty and pulsar.auth.jwt.enabled false, or remove the setting." -}}
{{- end -}}
{{- end -}}

{{- define "keyline.check.proxyRole" -}}
{{- if .Values.proxyRoleToken.existingSecret -}}
{{- if not (and .Values.tls.enabled .Values.tls.clientCa.existingSecret) -}}
{{- fail "proxyRoleToken.existingSecret needs tls.enabled and tls.clientCa.existingSecret: the authorities that have signed the clients' certificates." -}}
{{- end -}}
{{- if or (get .Values.config "broker_is_proxy" | default false) (and .Values.pulsar.release (eq .Values.pulsar.component "proxy")) -}}
{{- fail "proxyRoleToken.existingSecret needs brokers: set pulsar.component to broker. A Pulsar proxy would see the gateway's role for every client." -}}
{{- end -}}
{{- if hasKey .Values.config "proxy_role_token_file" -}}
{{- fail "config.proxy_role_token_file and proxyRoleToken.existingSecret exclude each other: remove one of them." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "keyline.check.replicas" -}}
{{- $several := include "keyline.severalReplicas" . -}}
{{- if and $several (not (include "keyline.groups" .)) -}}
{{- fail (printf "config.groups_enabled is false, and there may be more than one replica (replicaCount %d, autoscaling.enabled %t): the broker lets only one of them have a subscription then. Remove it, or run one replica." (int .Values.replicaCount) .Values.autoscaling.enabled) -}}
{{- end -}}
{{- with .Values.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "autoscaling.minReplicas (%d) must be at most autoscaling.maxReplicas (%d)." (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- if and .enabled (not (or .cpuPercent .perPod.workers .perPod.connections .perPod.heldBytes)) -}}
{{- fail "autoscaling.enabled needs a metric: set autoscaling.cpuPercent or one of autoscaling.perPod." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "keyline.check.secrets" -}}
{{- with .Values.tls -}}
{{- if and .enabled (not .existingSecret) (not .certManager.enabled) -}}
{{- fail "tls.enabled needs a certificate: name a Secret with tls.crt and tls.key in tls.existingSecret, or set tls.certManager.enabled." -}}
{{- end -}}
{{- if and .enabled .certManager.enabled (not .certManager.issuerRef.name) -}}
{{- fail "tls.certManager.enabled needs tls.certManager.issuerRef.name: the Issuer or ClusterIssuer that signs." -}}
{{- end -}}
{{- if and (get $.Values.config "admin_tls" | default false) (not .enabled) -}}
{{- fail "config.admin_tls needs a certificate: set tls.enabled too." -}}
{{- end -}}
{{- end -}}
{{- if and (hasKey .Values.config "metrics_open") (not .Values.config.metrics_open) (ne .Values.monitoring.scrape.kind "none") -}}
{{- fail "config.metrics_open is false, and monitoring.scrape has no token: set monitoring.scrape.kind to none, and use your own scrape job." -}}
{{- end -}}
{{- end -}}

{{- define "keyline.check.journal" -}}
{{- with .Values.journal -}}
{{- if and .volume.enabled (eq $.Values.kind "Deployment") (not .volume.existingClaim) -}}
{{- fail "journal.volume.enabled needs kind StatefulSet, which gives each replica a volume of its own, or journal.volume.existingClaim." -}}
{{- end -}}
{{- if and .objectStore.url (hasKey $.Values.config "journal") -}}
{{- fail "config.journal and journal.objectStore.url name two places for one journal: set only one of them." -}}
{{- end -}}
{{- if and .objectStore.url (not (regexMatch "^(s3|gs|gcs|abfs|abfss|hdfs)://[^@]+$" .objectStore.url)) -}}
{{- fail (printf "journal.objectStore.url (%s) must be a URL such as s3://bucket/folder, without a user." .objectStore.url) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Bounds of sizes and relations of settings, from files/settings.json, which is made from the gateway's models. */}}
{{- define "keyline.check.numbers" -}}
{{- $facts := .Files.Get "files/settings.json" | fromJson -}}
{{- $config := .Values.config -}}
{{- $mistakes := list -}}
{{- range $name, $size := $facts.sizes -}}
{{- if hasKey $config $name -}}
{{- $bytes := include "keyline.number" (get $config $name) | float64 -}}
{{- if or (lt $bytes (float64 $size.least)) (gt $bytes (float64 $size.most)) -}}
{{- $mistakes = append $mistakes (printf "config.%s (%s) must be %s." $name (include "keyline.shown" (get $config $name)) $size.takes) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $facts.relations -}}
{{- $left := ternary (get $config .left) (get $facts.defaults .left) (hasKey $config .left) -}}
{{- $right := ternary (get $config .right) (get $facts.defaults .right) (hasKey $config .right) -}}
{{- $over := subf (include "keyline.number" $left | float64) (include "keyline.number" $right | float64) -}}
{{- if or (gt $over 0.0) (and .strict (eq $over 0.0)) -}}
{{- $mistakes = append $mistakes (printf "config.%s (%s) must be %s config.%s (%s): %s." .left (include "keyline.shown" $left) .words .right (include "keyline.shown" $right) .why) -}}
{{- end -}}
{{- end -}}
{{- if $mistakes -}}
{{- fail (join " " $mistakes) -}}
{{- end -}}
{{- end -}}

{{- define "keyline.check.life" -}}
{{- $grace := include "keyline.graceSeconds" . | int -}}
{{- $least := include "keyline.graceSecondsLeast" . | int -}}
{{- if lt $grace $least -}}
{{- fail (printf "shutdown.terminationGracePeriodSeconds (%d) must be at least %d: shutdown.preStopSeconds (%d), config.drain_timeout_s (%s) and 20 s to close connections and finish the journal. Otherwise the pod is killed while it drains." $grace $least (int .Values.shutdown.preStopSeconds) (include "keyline.drainSeconds" .)) -}}
{{- end -}}
{{- $limit := .Values.resources | dig "limits" "memory" "" -}}
{{- if $limit -}}
{{- $facts := .Files.Get "files/settings.json" | fromJson -}}
{{- $held := get .Values.config "gateway_memory_bytes" | default $facts.defaults.gateway_memory_bytes -}}
{{- $waiting := get .Values.config "waiting_producers_bytes_max" | default $facts.defaults.waiting_producers_bytes_max -}}
{{- $most := addf (include "keyline.number" $held | float64) (include "keyline.number" $waiting | float64) -}}
{{- if le (include "keyline.number" $limit | float64) $most -}}
{{- fail (printf "resources.limits.memory (%s) must be more than config.gateway_memory_bytes (%s) and config.waiting_producers_bytes_max (%s) together: the gateway would be killed before it stops reading." (include "keyline.shown" $limit) (include "keyline.shown" $held) (include "keyline.shown" $waiting)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "keyline.check.network" -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.egress) -}}
{{- if or (not .Values.pulsar.release) (hasKey .Values.config "broker_url") -}}
{{- fail "networkPolicy.enabled needs networkPolicy.egress where the brokers are not those of pulsar.release: the gateway could not reach them." -}}
{{- end -}}
{{- if .Values.journal.objectStore.url -}}
{{- fail "networkPolicy.enabled needs networkPolicy.egress where the journal goes to an object store: the gateway could not reach it." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "keyline.check.ingress" -}}
{{- $tokens := or .Values.adminTokens.enabled (hasKey .Values.config "admin_token_jwks_url") (hasKey .Values.config "admin_token_public_key_file") (hasKey .Values.config "admin_token_secret_file") -}}
{{- if .Values.ingress.enabled -}}
{{- if not $tokens -}}
{{- fail "ingress.enabled needs tokens, or everyone who reaches the Ingress could pause subscriptions and evict workers: set adminTokens.enabled or config.admin_token_jwks_url." -}}
{{- end -}}
{{- if not .Values.ingress.hosts -}}
{{- fail "ingress.enabled needs ingress.hosts: an Ingress without a host would take every host's requests." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "keyline.check.rules" -}}
{{- if and .Values.monitoring.rules.enabled (not .Values.monitoring.rules.runbookUrl) -}}
{{- fail "monitoring.rules.enabled needs monitoring.rules.runbookUrl: each alert links to its section of the page made of docs/runbook.md, https://HOST/keyline/runbook for instance." -}}
{{- end -}}
{{- end -}}
