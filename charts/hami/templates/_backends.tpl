{{/*
Everything that depends on a vendor is data: a definition per backend (files of backends/, or the values
backends.definitions), changed by values of older charts that the definition names, then by backends.<name>.
*/}}

{{/* Copy a map's values over another's, below as well; a node selector is replaced as a whole. Argument: list into from. */}}
{{- define "hami.mergeInto" -}}
{{- $into := index . 0 }}
{{- range $key, $value := index . 1 }}
{{- if and (kindIs "map" $value) (kindIs "map" (index $into $key)) (ne $key "nodeSelector") }}
{{- include "hami.mergeInto" (list (index $into $key) $value) }}
{{- else }}
{{- $_ := set $into $key $value }}
{{- end }}
{{- end }}
{{- end }}

{{/* The value at a dotted path, as JSON {"value": …}; {} when it is absent or null. Argument: list values path. */}}
{{- define "hami.at" -}}
{{- $found := dict "value" (index . 0) }}
{{- range splitList "." (index . 1) }}
{{- $below := "" }}
{{- if hasKey $found "value" }}
{{- if kindIs "map" $found.value }}
{{- $below = index $found.value . }}
{{- else }}
{{- $below = nil }}
{{- end }}
{{- if kindIs "invalid" $below }}{{ $_ := unset $found "value" }}{{ else }}{{ $_ := set $found "value" $below }}{{ end }}
{{- end }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{/* All definitions there are, by name, before overrides. */}}
{{- define "hami.known" -}}
{{- $known := dict }}
{{- range $path, $_ := .Files.Glob "backends/*.yaml" }}
{{- include "hami.mergeInto" (list $known ($.Files.Get $path | fromYaml).backends.definitions) }}
{{- end }}
{{- include "hami.mergeInto" (list $known (deepCopy (.Values.backends.definitions | default dict))) }}
{{- toYaml $known }}
{{- end }}

{{/* The enabled backends, by name, complete. */}}
{{- define "hami.backends" -}}
{{- $known := include "hami.known" . | fromYaml }}
{{- $wanted := .Values.backends.enabled | default list }}
{{- range $name, $old := .Values.devices | default dict }}
{{- if and (kindIs "map" $old) (hasKey $old "enabled") (not (kindIs "invalid" $old.enabled)) }}
{{- if and $old.enabled (hasKey $known $name) }}
{{- $wanted = append $wanted $name }}
{{- else if not $old.enabled }}
{{- $wanted = without $wanted $name }}
{{- end }}
{{- end }}
{{- end }}
{{- if not $wanted }}
{{- fail (printf "backends.enabled: expected at least one backend, got none; known are %s" (keys $known | sortAlpha | join ", ")) }}
{{- end }}
{{- $found := dict }}
{{- range $name := $wanted | uniq | sortAlpha }}
{{- if not (hasKey $known $name) }}
{{- fail (printf "backends.enabled: expected a backend with a definition, got %q; known are %s; another's comes as a file, -f %s.values.yaml, written by `hami backends chart %s`" $name (keys $known | sortAlpha | join ", ") $name $name) }}
{{- end }}
{{- $one := index $known $name }}
{{- range $path, $targets := $one.aliases | default dict }}
{{- $old := include "hami.at" (list $.Values $path) | fromJson }}
{{- if hasKey $old "value" }}
{{- range $targets }}
{{- $parts := splitn "." 2 . }}
{{- if not (hasKey $one $parts._0) }}{{ $_ := set $one $parts._0 dict }}{{ end }}
{{- $_ := set (index $one $parts._0) $parts._1 $old.value }}
{{- end }}
{{- end }}
{{- end }}
{{- with index $.Values.backends $name }}
{{- include "hami.mergeInto" (list $one (deepCopy .)) }}
{{- end }}
{{- with include "hami.givenSections" $ | fromYaml }}
{{- with index . $one.section }}
{{- include "hami.mergeInto" (list $one.settings .) }}
{{- end }}
{{- end }}
{{- if $one.plugin }}
{{- if not $one.plugin.image }}
{{- fail (printf "backends.%s.plugin.image: expected the image that holds the backend's packages, got nothing" $name) }}
{{- end }}
{{- end }}
{{- $_ := set $found $name $one }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{/* Sections of a device configuration that was given as a text. */}}
{{- define "hami.givenSections" -}}
{{- $given := index .Values "device-config" | default dict }}
{{- if $given.content }}
{{- $read := fromYaml $given.content }}
{{- if hasKey $read "Error" }}
{{- fail (printf "device-config.content: expected YAML, got %s" $read.Error) }}
{{- end }}
{{- $sections := dict }}
{{- range $key, $section := $read }}
{{- /* A section that is a list is read as its "configs". */}}
{{- $_ := set $sections $key (kindIs "slice" $section | ternary (dict "configs" $section) $section) }}
{{- end }}
{{- toYaml $sections }}
{{- else }}
{{- "{}" }}
{{- end }}
{{- end }}

{{/* Enabled backends whose node agent runs, by name. */}}
{{- define "hami.agents" -}}
{{- $found := dict }}
{{- if .Values.devicePlugin.enabled }}
{{- range $name, $one := include "hami.backends" . | fromYaml }}
{{- if kindIs "map" $one.agent }}
{{- if ne (toString (dig "enabled" true $one.agent)) "false" }}
{{- $_ := set $found $name $one }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{/* Texts at a pointer such as resourceName or configs[].resourceName, one a line. Argument: list value parts. */}}
{{- define "hami.pointed" -}}
{{- $value := index . 0 }}
{{- $parts := index . 1 }}
{{- if not $parts }}
{{- if and (kindIs "string" $value) $value }}{{ printf "%s\n" $value }}{{ end }}
{{- else if kindIs "map" $value }}
{{- $part := first $parts }}
{{- $below := index $value (trimSuffix "[]" $part) }}
{{- if hasSuffix "[]" $part }}
{{- range $below | default list }}{{ include "hami.pointed" (list . (rest $parts)) }}{{ end }}
{{- else }}
{{- include "hami.pointed" (list $below (rest $parts)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Resources of the enabled backends: YAML with a list "managed" of {name, role, backend}. */}}
{{- define "hami.managed" -}}
{{- $found := list }}
{{- $seen := dict }}
{{- range $backend, $one := include "hami.backends" . | fromYaml }}
{{- range $entry := $one.managed | default list }}
{{- $names := list }}
{{- if $entry.name }}
{{- $names = list $entry.name }}
{{- else }}
{{- $names = include "hami.pointed" (list $one.settings (splitList "." $entry.setting)) | splitList "\n" | compact }}
{{- end }}
{{- range $name := $names }}
{{- if not (hasKey $seen $name) }}
{{- $_ := set $seen $name true }}
{{- $found = append $found (dict "name" $name "role" $entry.role "backend" $backend) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml (dict "managed" $found) }}
{{- end }}

{{/* Annotations of pods that state allocations: YAML with "keys", "prefix" and "suffixes". */}}
{{- define "hami.podKeys" -}}
{{- $core := (.Files.Get "files/core.yaml" | fromYaml).bookkeeping }}
{{- $keys := $core.pods }}
{{- range $_, $one := include "hami.backends" . | fromYaml }}
{{- $keys = concat $keys (dig "bookkeeping" "pods" list $one) }}
{{- end }}
{{- toYaml (dict "keys" ($keys | uniq | sortAlpha) "prefix" $core.prefix "suffixes" $core.suffixes) }}
{{- end }}

{{/* CEL: whether the annotation k states an allocation. */}}
{{- define "hami.isRecord" -}}
{{- $pods := include "hami.podKeys" . | fromYaml -}}
{{- $ends := list -}}
{{- range $pods.suffixes }}{{ $ends = append $ends (printf "k.endsWith(%s)" (toJson .)) }}{{ end -}}
(k in {{ toJson $pods.keys }} || (k.startsWith({{ toJson $pods.prefix }}) && ({{ join " || " $ends }})))
{{- end }}

{{/* The device configuration: the core's settings, which backends load, and a section for each. */}}
{{- define "hami.deviceConfig" -}}
{{- $backends := include "hami.backends" . | fromYaml }}
{{- $config := deepCopy (.Values.settings | default dict) }}
{{- $users := list (include "hami.schedulerUser" .) }}
{{- range $name, $_ := include "hami.agents" . | fromYaml }}
{{- $users = append $users (include "hami.agentUser" (dict "root" $ "backend" $name)) }}
{{- end }}
{{- $webhook := dict "schedulerName" .Values.schedulerName }}
{{- $placement := dict }}
{{- with .Values.scheduler.defaultSchedulerPolicy }}
{{- with .nodeSchedulerPolicy }}{{ $_ := set $placement "nodePolicy" . }}{{ end }}
{{- with .gpuSchedulerPolicy }}{{ $_ := set $placement "devicePolicy" . }}{{ end }}
{{- end }}
{{- if not (kindIs "invalid" .Values.scheduler.forceOverwriteDefaultScheduler) }}
{{- $_ := set $webhook "forceOverwriteDefaultScheduler" .Values.scheduler.forceOverwriteDefaultScheduler }}
{{- end }}
{{- include "hami.mergeInto" (list $webhook (dig "webhook" dict $config)) }}
{{- include "hami.mergeInto" (list $placement (dig "placement" dict $config)) }}
{{- $_ := set $webhook "trustedUsers" (concat ($webhook.trustedUsers | default list) .Values.admissionPolicy.trustedUsers $users | uniq) }}
{{- $_ := set $config "webhook" $webhook }}
{{- with $placement }}{{ $_ := set $config "placement" . }}{{ end }}
{{- $_ := set $config "backends" (dict "enabled" (keys $backends | sortAlpha)) }}
{{- range $name, $one := $backends }}
{{- with $one.settings }}{{ $_ := set $config $one.section . }}{{ end }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/* Files and Python of backends that every process needs: volumes. */}}
{{- define "hami.backendVolumes" -}}
{{- $backends := include "hami.backends" . | fromYaml }}
{{- $copies := false }}
{{- range $name, $one := $backends }}
{{- if $one.files }}
- name: files-{{ $name }}
  configMap:
    name: {{ include "hami.fullname" $ }}-files-{{ $name }}
{{- end }}
{{- with $one.plugin }}
{{- if eq (.as | default "copy") "volume" }}
- name: plugin-{{ $name }}
  image:
    reference: {{ .image }}
    pullPolicy: {{ .pullPolicy | default "IfNotPresent" }}
{{- else }}
- name: plugin-{{ $name }}
  emptyDir: {}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "hami.backendMounts" -}}
{{- range $name, $one := include "hami.backends" . | fromYaml }}
{{- if $one.files }}
- name: files-{{ $name }}
  mountPath: /etc/hami/backends/{{ $name }}
  readOnly: true
{{- end }}
{{- with $one.plugin }}
- name: plugin-{{ $name }}
  mountPath: /plugins/{{ $name }}
  readOnly: true
{{- end }}
{{- end }}
{{- end }}

{{/* Where Python finds the backends that came as plugin images. */}}
{{- define "hami.backendEnv" -}}
{{- $paths := list }}
{{- range $name, $one := include "hami.backends" . | fromYaml }}
{{- with $one.plugin }}
{{- $below := eq (.as | default "copy") "volume" | ternary (.path | default "/site-packages") "" }}
{{- $paths = append $paths (printf "/plugins/%s%s" $name $below) }}
{{- end }}
{{- end }}
{{- with $paths }}
- name: PYTHONPATH
  value: {{ join ":" . }}
{{- end }}
{{- end }}

{{/* Init containers that copy a plugin image's site-packages; the same rights in both namespaces. */}}
{{- define "hami.backendInit" -}}
{{- range $name, $one := include "hami.backends" . | fromYaml }}
{{- with $one.plugin }}
{{- if ne (.as | default "copy") "volume" }}
- name: plugin-{{ $name }}
  image: {{ .image }}
  imagePullPolicy: {{ .pullPolicy | default "IfNotPresent" }}
  command: [cp, -R, {{ printf "%s/." (.path | default "/site-packages") | quote }}, /plugin/]
  securityContext:
    {{- include "hami.restrictedContainer" $ | nindent 4 }}
    runAsUser: 65532
  volumeMounts:
    - name: plugin-{{ $name }}
      mountPath: /plugin
{{- end }}
{{- end }}
{{- end }}
{{- end }}
