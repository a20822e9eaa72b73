{{/* Names, labels and images. */}}

{{- define "hami.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "hami.fullname" -}}
{{- $name := include "hami.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "hami.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end }}

{{- define "hami.agentNamespace" -}}
{{- .Values.devicePlugin.namespace.name | default (printf "%s-nodes" (include "hami.fullname" .)) -}}
{{- end }}

{{- define "hami.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "hami.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.global.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Argument: root, component. */}}
{{- define "hami.selector" -}}
app.kubernetes.io/name: {{ include "hami.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Argument: root, image, fallback (an image whose parts count where this one's are empty). */}}
{{- define "hami.image" -}}
{{- $fallback := .fallback | default dict -}}
{{- $registry := .root.Values.global.imageRegistry | default .image.registry | default $fallback.registry -}}
{{- $repository := .image.repository | default $fallback.repository -}}
{{- $tag := .image.tag | default $fallback.tag | default .root.Values.global.imageTag | default .root.Chart.AppVersion -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ $repository }}:{{ $tag }}
{{- end }}

{{/* kube-scheduler follows the cluster: its version without what a distribution has added to it. */}}
{{- define "hami.kubeSchedulerImage" -}}
{{- $image := .Values.scheduler.kubeScheduler.image -}}
{{- $registry := .Values.global.imageRegistry | default $image.registry -}}
{{- $tag := $image.tag | default (regexFind "^v[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version) -}}
{{- if $registry }}{{ $registry }}/{{ end }}{{ $image.repository }}:{{ $tag }}
{{- end }}

{{/* Argument: root, images (their pullSecrets count beside the global ones). */}}
{{- define "hami.pullSecrets" -}}
{{- $names := .root.Values.global.imagePullSecrets | default list -}}
{{- range .images }}{{ $names = concat $names (.pullSecrets | default list) }}{{ end -}}
{{- with $names | uniq }}
imagePullSecrets:
{{- range . }}
  - name: {{ kindIs "map" . | ternary (dig "name" "" (kindIs "map" . | ternary . dict)) . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Environment entries from a list of entries or a map of texts. */}}
{{- define "hami.env" -}}
{{- if kindIs "map" . }}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- else if . }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "hami.schedulerAccount" -}}
{{ include "hami.fullname" . }}-scheduler
{{- end }}

{{- define "hami.schedulerUser" -}}
system:serviceaccount:{{ include "hami.namespace" . }}:{{ include "hami.schedulerAccount" . }}
{{- end }}

{{/* Argument: root, backend. */}}
{{- define "hami.agentName" -}}
{{ include "hami.fullname" .root }}-device-plugin-{{ .backend }}
{{- end }}

{{/* Argument: root, backend. */}}
{{- define "hami.agentUser" -}}
system:serviceaccount:{{ include "hami.agentNamespace" .root }}:{{ include "hami.agentName" . }}
{{- end }}

{{/* For clusters whose API server cannot reach the pods' network. Argument: whether. */}}
{{- define "hami.hostNetwork" -}}
{{- if . }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- end }}

{{/* Pod Security "restricted", and a root file system that cannot be written. */}}
{{- define "hami.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "hami.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}
