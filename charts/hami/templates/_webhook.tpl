{{/* What the API server is told about the webhook. */}}

{{- define "hami.webhookHost" -}}
{{ include "hami.fullname" . }}-webhook.{{ include "hami.namespace" . }}.svc
{{- end }}

{{- define "hami.failurePolicy" -}}
{{- $old := .Values.scheduler.admissionWebhook | default dict -}}
{{- .Values.webhook.failurePolicy | default $old.failurePolicy | default "Fail" -}}
{{- end }}

{{- define "hami.webhookEnabled" -}}
{{- $old := .Values.scheduler.admissionWebhook | default dict -}}
{{- if and .Values.webhook.enabled (ne (toString $old.enabled) "false") }}true{{ end -}}
{{- end }}

{{/* built-in, cert-manager or existing; v2.10's switch for cert-manager counts. */}}
{{- define "hami.certificateSource" -}}
{{- $old := .Values.scheduler.certManager | default dict -}}
{{- if and $old.enabled (eq .Values.certificates.source "built-in") }}cert-manager{{ else }}{{ .Values.certificates.source }}{{ end -}}
{{- end }}

{{/* Whether certificates are needed at all. */}}
{{- define "hami.needsCertificates" -}}
{{- if or (include "hami.webhookEnabled" .) (include "hami.isMtls" .) }}true{{ end -}}
{{- end }}

{{/* Namespaces that never reach the webhook, so that neither the cluster nor we ourselves depend on it. */}}
{{- define "hami.excludedNamespaces" -}}
{{- $old := .Values.scheduler.admissionWebhook | default dict -}}
{{- $names := list "kube-system" (include "hami.namespace" .) (include "hami.agentNamespace" .) -}}
{{- concat $names .Values.webhook.excludedNamespaces ($old.whitelistNamespaces | default list) | uniq | sortAlpha | toJson -}}
{{- end }}

{{/* CEL: whether the pod has a resource of an enabled backend, or an annotation that states an allocation. */}}
{{- define "hami.concernsDevices" -}}
{{- $names := list -}}
{{- range (include "hami.managed" . | fromYaml).managed }}{{ $names = append $names .name }}{{ end -}}
[object.spec.containers, has(object.spec.initContainers) ? object.spec.initContainers : []].exists(containers,
  containers.exists(c, has(c.resources) && (
    (has(c.resources.limits) && c.resources.limits.exists(r, r in {{ toJson $names }})) ||
    (has(c.resources.requests) && c.resources.requests.exists(r, r in {{ toJson $names }})))))
|| (has(object.metadata.annotations) && object.metadata.annotations.exists(k,
  {{ include "hami.isRecord" . }}))
{{- end }}

{{/* Backends of which a setting is on that concerns every pod: "true" or "". */}}
{{- define "hami.everyPod" -}}
{{- range $_, $one := include "hami.backends" . | fromYaml }}
{{- if $one.everyPod }}
{{- if eq (toString (index $one.settings $one.everyPod)) "true" }}true{{ end }}
{{- end }}
{{- end }}
{{- end }}
