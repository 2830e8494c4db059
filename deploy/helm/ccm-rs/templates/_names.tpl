{{- define "ccm.selector" -}}
app.kubernetes.io/name: {{ toYaml .Values.name }}
app.kubernetes.io/instance: {{ toYaml .Release.Name }}
{{- end }}

{{- define "ccm.labels" -}}
{{ include "ccm.selector" . }}
app.kubernetes.io/component: cloud-controller-manager
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /*
The image of the package as JSON (files/image.yaml, which deploy/package writes). A repository that begins with REGISTRY is a
placeholder: the user pushes the image and names the repository.
*/ -}}
{{- define "ccm.imageOfPackage" -}}
{{- $packaged := .Files.Get "files/image.yaml" | fromYaml -}}
{{- if hasPrefix "REGISTRY/" (toString $packaged.repository) -}}{{- $packaged = set (omit $packaged "repository") "anywhere" true -}}{{- end -}}
{{- toJson $packaged -}}
{{- end }}

{{- /*
Fills in the image of the package. Its tag or digest belongs to its repository: with a repository of the user's own only the user's tag
and digest count, unless the package names no repository.
*/ -}}
{{- define "ccm.packagedImage" -}}
{{- $packaged := include "ccm.imageOfPackage" . | fromJson -}}
{{- $image := .Values.image -}}
{{- $fits := and $packaged.repository (or (not $image.repository) (eq (toString $image.repository) (toString $packaged.repository))) -}}
{{- if or $fits (and $packaged.anywhere $image.repository) -}}
{{- if $fits -}}{{- $_ := set $image "repository" $packaged.repository -}}{{- end -}}
{{- if not (or $image.tag $image.digest) -}}
{{- $_ := set $image "tag" $packaged.tag -}}
{{- $_ := set $image "digest" $packaged.digest -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /*
The refusal of an image of a vendor's program, which values files of their charts name; empty if the image is another one. Mirrors of
other names pass.
*/ -}}
{{- define "ccm.checkImage" -}}
{{- $repository := toString (.Values.image.repository | default "") -}}
{{- $packaged := include "ccm.imageOfPackage" . | fromJson -}}
{{- $vendors := list
  "^((index[.])?docker[.]io/)?(hetznercloud|linode|digitalocean|k8scloudprovider|rancher|munnerz)/"
  "^(registry[.]k8s[.]io|k8s[.]gcr[.]io)/"
  "^quay[.]io/syself/"
  "^(([a-z]+[.])?gcr[.]io|[-a-z0-9]+-docker[.]pkg[.]dev)/k8s-(staging|artifacts)"
  "^mcr[.]microsoft[.]com/"
  "^ghcr[.]io/oracle/"
  "^[-a-z0-9]+[.]ocir[.]io/oracle/"
  "^registry[-.a-z0-9]*[.](aliyuncs|cr[.]aliyuncs)[.]com/acs/"
  "^ccr[.]ccs[.]tencentyun[.]com/tkeimages/"
  "^[-a-z]*registry[.]baidubce[.]com/cce-plugin"
-}}
{{- $is := contains "{{" $repository -}}
{{- range $vendors -}}{{- if regexMatch . $repository -}}{{- $is = true -}}{{- end -}}{{- end -}}
{{- if $is -}}
{{- $what := "set it to the repository that you pushed the image of ccm-rs to, such as registry.example.com/cloud-controller-manager" -}}
{{- if $packaged.repository -}}{{- $what = printf "remove image.repository, image.tag and image.digest: the package has the image %s" $packaged.repository -}}{{- end -}}
{{- printf "image.repository: %q has the vendor's program, not this one; %s" $repository $what -}}
{{- end -}}
{{- end }}

{{- define "ccm.image" -}}
{{- $repository := required "image.repository is required: build the image, push it to a registry of yours, and name it, for example --set image.repository=registry.example.com/cloud-controller-manager (docs/deploy.md, \"The image\")" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* "true" if the route controller runs. */ -}}
{{- define "ccm.routes" -}}
{{- /* The preset, which asks, may switch the controller off: before that the switch is null. */ -}}
{{- if and (ne (toString .Values.controllers.route) "false") .Values.clusterCIDR }}true{{ end }}
{{- end }}

{{- /* Name of the Secret, or of the ConfigMap, with the configuration file; empty if there is none. */ -}}
{{- define "ccm.cloudConfig" -}}
{{- $own := .Values.cloudConfig }}
{{- if and $own.configMapName $own.content }}
{{- fail "cloudConfig.configMapName and cloudConfig.content: there is one configuration file; set one of them" }}
{{- end }}
{{- if $own.configMapName }}{{ $own.configMapName }}
{{- else if $own.secretName }}{{ $own.secretName }}
{{- else if $own.content }}{{ .Values.name }}-cloud-config
{{- end }}
{{- end }}

{{- define "ccm.serviceAccount" -}}
{{ .Values.serviceAccount.name | default .Values.name }}
{{- end }}

{{- /* The webhooks that are served, as --webhooks names them. */ -}}
{{- define "ccm.webhooks" -}}
{{- $webhooks := list }}
{{- if .Values.webhook.enabled }}{{ $webhooks = append $webhooks "pvlabel" }}{{ end }}
{{- if .Values.webhook.services.enabled }}{{ $webhooks = append $webhooks "lb-service" }}{{ end }}
{{- join "," $webhooks }}
{{- end }}

{{- define "ccm.webhookSecret" -}}
{{ .Values.webhook.secretName | default (printf "%s-webhook" .Values.name) }}
{{- end }}

{{- /* The ServiceAccounts that useServiceAccountCredentials asks tokens of, as a YAML list. */ -}}
{{- define "ccm.identities" -}}
{{- if or .Values.controllers.node .Values.controllers.nodeLifecycle }}
- node-controller
{{- end }}
{{- if include "ccm.routes" . }}
- route-controller
{{- end }}
{{- if .Values.controllers.service }}
- service-controller
{{- end }}
{{- if .Values.controllers.volume }}
- pvl-controller
{{- end }}
{{- end }}

{{- /* What the controllers do themselves, for the manager's role or for that of an account of their own. */ -}}
{{- define "ccm.rules.node" -}}
# cloud-node-controller: provider id, addresses, labels and the start-up taint of new Nodes.
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, patch]
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
{{- end }}
{{- define "ccm.rules.node-lifecycle" -}}
# cloud-node-lifecycle-controller: the shutdown taint, and Nodes whose machine is gone. Without delete they stay for ever.
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, patch, delete]
{{- end }}
{{- define "ccm.rules.service" -}}
# service-lb-controller: finalizer, address and condition are all written through the status.
- apiGroups: [""]
  resources: [services]
  verbs: [get]
- apiGroups: [""]
  resources: [services/status]
  verbs: [patch]
{{- end }}
{{- define "ccm.rules.route" -}}
# node-route-controller: the condition NetworkUnavailable.
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
{{- end }}
{{- define "ccm.rules.volume" -}}
# persistent-volume-label-controller: topology labels and node affinity.
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs: [get, patch]
{{- end }}
{{- define "ccm.rules.events" -}}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- /* Whom the manager's roles are bound to. */ -}}
{{- define "ccm.subjects" -}}
- kind: ServiceAccount
  name: {{ include "ccm.serviceAccount" . | toYaml }}
  namespace: {{ toYaml .Release.Namespace }}
{{- with .Values.rbac.extraSubjects }}
{{ toYaml . }}
{{- end }}
{{- end }}
