{{/* Node agents. */}}

{{/* How Allocate learns its pod; the setting of the same name wins. */}}
{{- define "hami.identity" -}}
{{- dig "agent" "identity" .Values.devicePlugin.identity (.Values.settings | default dict) -}}
{{- end }}

{{/* Argument: root, agent. */}}
{{- define "hami.agentEnv" -}}
{{- include "hami.backendEnv" .root }}
{{- include "hami.env" (.agent.env | default dict) }}
{{- end }}

{{/*
The node agent's rights on its node. Argument: root, agent.
*/}}
{{- define "hami.agentSecurity" -}}
{{- $given := .root.Values.devicePlugin.securityContext }}
{{- if $given -}}
{{ toYaml $given }}
{{- else if .agent.privileged -}}
privileged: true
runAsUser: 0
{{- else -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
# The kubelet's socket directory, CDI's and ours belong to root.
runAsUser: 0
# The default profile hides other processes' mounts from SYS_PTRACE as well.
appArmorProfile:
  type: Unconfined
capabilities:
  drop: [ALL]
  add:
    # Reads which directories other processes have mounted, so that no running container's limits are removed.
    - SYS_PTRACE
    {{- range .agent.capabilities | default list }}
    - {{ . }}
    {{- end }}
{{- end }}
{{- end }}
