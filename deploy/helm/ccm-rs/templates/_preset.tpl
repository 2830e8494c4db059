{{- /*
Completes .Values, once for each rendering; every template calls it first. In this order:

0. Values that the user's file leaves empty (`rbac:` with commented-out keys is null) get their defaults back. Helm removes the
   default of a value that is null, so files/defaults.yaml has a copy of values.yaml.
1. `args` and `extraArgs` that have a value of their own set that value.
2. Names of values that charts of vendors have are resolved, or refused with the name that this chart has.
3. The preset of the cloud (presets/NAME.yaml) fills in what the user left out. Lists are joined; the user's entry replaces that of
   the same name.
4. Defaults of values that a preset may set. In values.yaml they are null, because Helm does not tell whose a value is.
*/ -}}
{{- define "ccm.prepare" -}}
{{- if not .Values.isPrepared -}}
{{- $_ := set .Values "isPrepared" true -}}
{{- include "ccm.restoreDefaults" (dict "to" .Values "from" (.Files.Get "files/defaults.yaml" | fromYaml)) -}}
{{- include "ccm.packagedImage" . -}}
{{- include "ccm.refuseForeign" . -}}
{{- include "ccm.checkFlags" . -}}
{{- include "ccm.resolveFlags" . -}}
{{- include "ccm.resolveNames" . -}}
{{- include "ccm.checkProvider" . -}}
{{- include "ccm.checkTexts" . -}}
{{- include "ccm.applyPreset" . -}}
{{- end -}}
{{- end }}

{{- define "ccm.applyPreset" -}}
{{- if and .Values.provider .Values.cloudProvider (ne .Values.provider .Values.cloudProvider) -}}
{{- fail (printf "provider and cloudProvider name the same thing, and they differ: %q and %q; remove cloudProvider" .Values.provider .Values.cloudProvider) -}}
{{- end -}}
{{- $provider := .Values.provider | default .Values.cloudProvider -}}
{{- $known := list -}}
{{- $aliases := dict -}}
{{- range $path, $_ := .Files.Glob "presets/*.yaml" -}}
{{- $name := trimSuffix ".yaml" (base $path) -}}
{{- $known = append $known $name -}}
{{- range ($.Files.Get $path | fromYaml).aliases -}}{{- $_ := set $aliases . $name -}}{{- end -}}
{{- end -}}
{{- if not $provider -}}
{{- fail (printf "provider is required: set it to the cloud of this cluster, for example --set provider=hcloud; known ones are %s" (join ", " $known)) -}}
{{- end -}}
{{- $_ := set .Values "cloudProvider" $provider -}}
{{- $name := .Values.preset | default (index $aliases $provider) | default $provider -}}
{{- $preset := dict -}}
{{- if ne $name "none" -}}
{{- if not (has $name $known) -}}
{{- $what := ternary "preset" "provider" (not (empty .Values.preset)) -}}
{{- $hints := dict "alibaba" "alibabacloud" "aliyun" "alibabacloud" "baidu" "cce" "baiducloud" "cce" "do" "digitalocean" "ec2" "aws" "gcp" "gce" "google" "gce" "hetzner" "hcloud" "akamai" "linode" "oracle" "oci" "tencent" "tencentcloud" "qcloud" "tencentcloud" -}}
{{- $lower := lower $name | replace "_" "" | replace "-" "" -}}
{{- $hint := index $hints $lower | default (ternary $lower "" (has $lower $known)) -}}
{{- if and (not $hint) (ge (len $lower) 3) -}}
{{- range $known -}}{{- if eq (trunc 2 .) (trunc 2 $lower) -}}{{- $hint = . -}}{{- end -}}{{- end -}}
{{- end -}}
{{- fail (printf "%s: %q is unknown%s; known ones are %s; for a provider of your own program set preset=none" $what $name (ternary (printf ", did you mean %q?" $hint) "" (not (empty $hint))) (join ", " $known)) -}}
{{- end -}}
{{- $preset = tpl (.Files.Get (printf "presets/%s.yaml" $name)) . | fromYaml -}}
{{- if $preset.Error -}}{{- fail (printf "presets/%s.yaml: %s" $name $preset.Error) -}}{{- end -}}
{{- end -}}
{{- include "ccm.checkSecret" (dict "root" . "name" $name "preset" $preset) -}}
{{- include "ccm.preferFiles" (dict "root" . "preset" $preset) -}}
{{- range $name, $by := dict "extraEnv" "name" "extraVolumes" "name" "extraVolumeMounts" "mountPath" -}}
{{- include "ccm.join" (dict "in" $.Values "name" $name "first" (index ($preset.values | default dict) $name) "by" $by) -}}
{{- end -}}
{{- $values := omit ($preset.values | default dict) "extraEnv" "extraVolumes" "extraVolumeMounts" -}}
{{- include "ccm.fill" (dict "to" .Values "from" $values) -}}
{{- include "ccm.fill" (dict "to" .Values "from" (include "ccm.defaults" . | fromYaml)) -}}
{{- range $preset.needs -}}
{{- $need := . -}}
{{- $found := $.Values.extraEnvFrom -}}
{{- range $.Values.extraEnv -}}
{{- if and (eq .name $need.env) (or .value .valueFrom) -}}{{- $found = true -}}{{- end -}}
{{- end -}}
{{- if not $found -}}
{{- fail (printf "env.%s is required for the provider %s: %s" $need.env $name $need.meaning) -}}
{{- end -}}
{{- end -}}
{{- $_ := set .Values "theirPreset" $preset -}}
{{- $_ := set .Values "presetName" $name -}}
{{- include "ccm.checkConflicts" . -}}
{{- end }}

{{- /*
Gives values that are null their defaults. Maps with keys of the user's own are left: there, null removes a default, as in
`resources.limits.memory=null`.
*/ -}}
{{- define "ccm.restoreDefaults" -}}
{{- $to := .to -}}
{{- range $key, $value := .from -}}
{{- $has := index $to $key -}}
{{- if kindIs "invalid" $has -}}
{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $to $key (deepCopy $value) -}}{{- else -}}{{- $_ := set $to $key nil -}}{{- end -}}
{{- else if and (kindIs "map" $has) (kindIs "map" $value) (not (has $key (list "resources" "labels"))) -}}
{{- include "ccm.restoreDefaults" (dict "to" $has "from" $value) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "ccm.defaults" -}}
kind: DaemonSet
replicas: 2
controlPlaneOnly: true
tolerations:
  style: any
controllers:
  node: true
  nodeLifecycle: true
  service: true
  route: true
  volume: false
cloudConfig:
  key: cloud.conf
{{- end }}

{{- /* Fails if a cloud needs a Secret and gets no credential, or takes none and gets a Secret. */ -}}
{{- define "ccm.checkSecret" -}}
{{- $values := .root.Values -}}
{{- $secret := .preset.secret -}}
{{- if and $values.secret (not $secret) -}}
{{- if eq .name "none" -}}
{{- fail "secret has no meaning with preset=none: mount the credential with cloudConfig.secretName, env, extraVolumes and extraVolumeMounts" -}}
{{- end -}}
{{- fail (printf "secret: the provider %s uses no Secret; remove the value" .name) -}}
{{- end -}}
{{- $set := dict -}}
{{- range $values.extraEnv -}}
{{- if or .value .valueFrom -}}{{- $_ := set $set .name true -}}
{{- else -}}
{{- $name := .name -}}
{{- range ($secret | default dict).keys -}}
{{- if and $values.secret (hasSuffix "_FILE" $name) (has $name (.env | default list)) -}}
{{- fail (printf "env.%s is empty, and would hide the key %s of the Secret; remove it" $name .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $has := or $values.secret $values.extraEnvFrom (not ($secret | default dict).required) -}}
{{- if and (not $has) $secret.file -}}
{{- $has = or $values.cloudConfig.secretName $values.cloudConfig.configMapName $values.cloudConfig.content (compact (index $values.extraArgs "cloud-config" | default list)) -}}
{{- end -}}
{{- if not $has -}}
{{- range $secret.flags -}}{{- if hasKey $values.extraArgs . -}}{{- $has = true -}}{{- end -}}{{- end -}}
{{- end -}}
{{- if not $has -}}
{{- $keys := list -}}
{{- $others := list -}}
{{- $lacks := false -}}
{{- range $secret.keys -}}
{{- if not .optional -}}
{{- $keys = append $keys .name -}}
{{- $found := false -}}
{{- range .env -}}{{- if hasKey $set . -}}{{- $found = true -}}{{- end -}}{{- end -}}
{{- $mount := .mount -}}
{{- range $values.extraVolumeMounts -}}{{- if and $mount (eq .mountPath $mount) -}}{{- $found = true -}}{{- end -}}{{- end -}}
{{- if not $found -}}
{{- $lacks = true -}}
{{- $ways := list -}}
{{- range .env -}}{{- $ways = append $ways (printf "env.%s" .) -}}{{- end -}}
{{- with .mount -}}{{- $ways = append $ways (printf "a mount at %s" .) -}}{{- end -}}
{{- with $ways -}}{{- $others = append $others (join " or " .) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $secret.file -}}{{- $others = prepend $others "the file of cloudConfig or of args.cloud-config" -}}{{- end -}}
{{- if $lacks -}}
{{- fail (printf "secret is required for the provider %s: set it to the name of a Secret in %s with the key %s, for example `kubectl -n %s create secret generic NAME %s`; without it, the chart finds the credential in none of these: %s" .name .root.Release.Namespace (join " and the key " $keys) .root.Release.Namespace $secret.create (join "; " $others)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
Removes variables that read the same key of the Secret as a file of the preset does (HCLOUD_TOKEN, HCLOUD_TOKEN_FILE): the variable would
win, and a new credential would need a restart.
*/ -}}
{{- define "ccm.preferFiles" -}}
{{- $files := dict -}}
{{- range (.preset.values | default dict).extraEnv -}}
{{- if hasSuffix "_FILE" .name -}}{{- $_ := set $files (trimSuffix "_FILE" .name) (base .value) -}}{{- end -}}
{{- end -}}
{{- $values := .root.Values -}}
{{- $env := list -}}
{{- $theirs := list -}}
{{- range $values.extraEnv -}}
{{- $ref := (.valueFrom | default dict).secretKeyRef | default dict -}}
{{- if not (and (hasKey $files .name) (eq (toString $ref.name) (toString $values.secret)) (eq (toString $ref.key) (index $files .name))) -}}
{{- $env = append $env . -}}
{{- if and (hasKey $files .name) (or .value .valueFrom) -}}{{- $theirs = append $theirs .name -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $values "extraEnv" $env -}}
{{- $_ := set $values "credentialVariables" $theirs -}}
{{- end }}

{{- /* Fills a map with what another one has and it lacks. Lists are joined. */ -}}
{{- define "ccm.fill" -}}
{{- $to := .to -}}
{{- range $key, $value := .from -}}
{{- $has := index $to $key -}}
{{- if kindIs "map" $value -}}
{{- if kindIs "invalid" $has -}}{{- $has = dict -}}{{- $_ := set $to $key $has -}}{{- end -}}
{{- if kindIs "map" $has -}}{{- include "ccm.fill" (dict "to" $has "from" $value) -}}{{- end -}}
{{- else if kindIs "slice" $value -}}
{{- include "ccm.join" (dict "in" $to "name" $key "first" $value) -}}
{{- else if kindIs "invalid" $has -}}
{{- $_ := set $to $key $value -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Puts a list before that of a value. With `by`, an entry of the value replaces that of the same name in its place. */ -}}
{{- define "ccm.join" -}}
{{- $by := .by -}}
{{- $theirs := index .in .name | default list -}}
{{- $all := list -}}
{{- $replaced := list -}}
{{- range $entry := .first -}}
{{- if $by -}}
{{- range $theirs -}}
{{- if eq (toString (index . $by)) (toString (index $entry $by)) -}}
{{- $entry = . -}}
{{- $replaced = append $replaced (index . $by) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $all = append $all $entry -}}
{{- end -}}
{{- range $theirs -}}
{{- if not (and $by (has (index . $by) $replaced)) -}}{{- $all = append $all . -}}{{- end -}}
{{- end -}}
{{- $_ := set .in .name (uniq $all) -}}
{{- end }}

{{- /* The text of a scalar: a whole number from a file is a float, which would be printed with an exponent. */ -}}
{{- define "ccm.text" -}}
{{- if and (kindIs "float64" .) (eq . (float64 (int64 .))) -}}{{ int64 . }}{{- else -}}{{ toString . }}{{- end -}}
{{- end }}
