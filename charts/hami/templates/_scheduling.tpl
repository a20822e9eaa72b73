{{/* kube-scheduler, the extender, and how the two meet. */}}

{{/* leaderElect as a boolean or an object, made one: YAML with enabled, leaseDuration, renewDeadline, retryPeriod. */}}
{{- define "hami.leaderElect" -}}
{{- $given := .Values.scheduler.leaderElect }}
{{- $found := dict "enabled" true "leaseDuration" "15s" "renewDeadline" "10s" "retryPeriod" "2s" }}
{{- if kindIs "map" $given }}
{{- include "hami.mergeInto" (list $found $given) }}
{{- else if kindIs "bool" $given }}
{{- $_ := set $found "enabled" $given }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{/* Whether the extender speaks TLS and demands a client certificate: "true" or "". */}}
{{- define "hami.isMtls" -}}
{{- if or (eq .Values.scheduler.extender.transport "mtls") (not .Values.scheduler.kubeScheduler.enabled) }}true{{ end }}
{{- end }}

{{- define "hami.extenderHost" -}}
{{ include "hami.fullname" . }}-extender.{{ include "hami.namespace" . }}.svc
{{- end }}

{{/* Arguments for a process of ours, without those that only v2.10's programs know. */}}
{{- define "hami.extraArgs" -}}
{{- range . }}
{{- if not (regexMatch "^(--debug|--?v(=.*)?)$" .) }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "hami.kubeSchedulerArgs" -}}
{{- $scheduler := .Values.scheduler.kubeScheduler }}
{{- range $scheduler.extraNewArgs | default $scheduler.extraArgs }}
{{- if not (regexMatch "^--(policy-config-file|config)=" .) }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The entry "extenders" of a KubeSchedulerConfiguration. Argument: root, url, certificates (folder of client certificates). */}}
{{- define "hami.extenders" -}}
{{- $left := .root.Values.scheduler.leaveToKubeScheduler -}}
{{- $agents := include "hami.agents" .root | fromYaml -}}
{{- $totals := dig "nodes" "publishTotals" true (.root.Values.settings | default dict) -}}
{{- $first := dig "placement" "scoresFirst" true (.root.Values.settings | default dict) -}}
- urlPrefix: {{ .url }}
  filterVerb: filter
  prioritizeVerb: score
  # Without this verb kube-scheduler evicts pods whose end would not help.
  preemptVerb: preempt
  bindVerb: bind
  {{- if $first }}
  # One step of our score counts 10 × weight; kube-scheduler's own scores add up to 1400 at most.
  weight: 141
  {{- else }}
  weight: 1
  {{- end }}
  nodeCacheCapable: true
  httpTimeout: {{ .root.Values.scheduler.kubeScheduler.httpTimeout }}
  # A pod that is bound without us has no record.
  ignorable: false
  {{- if .certificates }}
  enableHTTPS: true
  tlsConfig:
    serverName: {{ include "hami.extenderHost" .root }}
    caFile: {{ .certificates }}/ca.crt
    certFile: {{ .certificates }}/tls.crt
    keyFile: {{ .certificates }}/tls.key
  {{- else }}
  enableHTTPS: false
  {{- end }}
  managedResources:
  {{- range (include "hami.managed" .root | fromYaml).managed }}
  {{- $leave := list "count" }}
  {{- if not (kindIs "invalid" $left) }}
  {{- $leave = $left }}
  {{- else if and $totals (hasKey $agents .backend) }}
  {{- $leave = list "count" "memory" "memoryPercent" "core" }}
  {{- end }}
    - name: {{ .name }}
      ignoredByScheduler: {{ not (has .role $leave) }}
  {{- end }}
{{- end }}

{{- define "hami.checkScheduling" -}}
{{- $elect := include "hami.leaderElect" . | fromYaml }}
{{- if and (gt (int .Values.scheduler.replicas) 1) (not $elect.enabled) }}
{{- fail "scheduler.replicas: expected 1 while scheduler.leaderElect is off, got more; two active schedulers would give one device twice" }}
{{- end }}
{{- if and (gt (int .Values.scheduler.replicas) 1) (not .Values.scheduler.kubeScheduler.enabled) }}
{{- fail "scheduler.replicas: expected 1 while scheduler.kubeScheduler.enabled is false, got more; an extender behind a Service has no election yet" }}
{{- end }}
{{- end }}

{{/* Whether the extender evicts pods whose limits do not hold: "true" or "". */}}
{{- define "hami.evicts" -}}
{{- if dig "monitor" "evict" false (.Values.settings | default dict) -}}
{{- if not .Values.admissionPolicy.enabled -}}
{{- fail "settings.monitor.evict: expected admissionPolicy.enabled beside it, got false; without the policy anybody who may write events could have pods evicted" -}}
{{- end -}}
true
{{- end -}}
{{- end }}
