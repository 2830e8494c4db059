{{- /*
Texts whose form the program or Kubernetes requires. They are checked here and not by a pattern of values.schema.json, because
Helm would show the pattern instead of what is accepted.
*/ -}}
{{- define "ccm.textForms" -}}
{{- $name := "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$" -}}
{{- $duration := "^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$" -}}
{{- $range := "((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])([.](25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])){3}/(3[0-2]|[12]?[0-9])|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))" -}}
{{- $rows := list
  (list "name" "^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$" "a name of at most 52 lower-case letters, digits and dashes")
  (list "secret" $name "the name of a Secret: lower-case letters, digits, dots and dashes")
  (list "serviceAccount.name" $name "the name of a ServiceAccount: lower-case letters, digits, dots and dashes")
  (list "cloudConfig.secretName" $name "the name of a Secret: lower-case letters, digits, dots and dashes")
  (list "cloudConfig.configMapName" $name "the name of a ConfigMap: lower-case letters, digits, dots and dashes")
  (list "cloudConfig.key" "^[-._a-zA-Z0-9]+$" "a key of a Secret: letters, digits, dots, dashes and underscores")
  (list "clusterCIDR" (printf "^(%s(,%s)?)?$" $range $range) "a range such as 10.244.0.0/16, or one of each family: 10.244.0.0/16,fd00::/56")
  (list "adoptableLoadBalancerTag" "^([A-Za-z0-9_./:-]+(=[A-Za-z0-9_./:-]*)?)?$" "a tag, KEY or KEY=VALUE")
  (list "image.repository" "^[^:@[:space:]]*(:[0-9]+/[^:@[:space:]]+)?$" "a repository without tag and digest, such as registry.example.com/cloud-controller-manager; set image.tag or image.digest")
  (list "image.tag" "^([A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?$" "a tag: letters, digits, underscores, dots and dashes")
  (list "image.digest" "^(sha256:[0-9a-f]{64})?$" "sha256: and 64 hexadecimal digits")
  (list "apiServer.host" "^([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)?$" "a host name or an IP address, without scheme and port; set apiServer.port")
  (list "bindAddress" "^([0-9.]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$" "an IP address")
  (list "metrics.plain.address" "^([0-9.]+|[[]?[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*[]]?|localhost)$" "an IP address")
  (list "tls.secretName" $name "the name of a Secret: lower-case letters, digits, dots and dashes")
  (list "webhook.secretName" $name "the name of a Secret: lower-case letters, digits, dots and dashes")
  (list "leaderElection.leaseDuration" $duration "a duration with its unit, such as 15s")
  (list "leaderElection.renewDeadline" $duration "a duration with its unit, such as 10s")
  (list "leaderElection.retryPeriod" $duration "a duration with its unit, such as 2s")
  (list "serviceMonitor.interval" $duration "a duration with its unit, such as 30s")
  (list "prometheusRule.runbookUrl" "^(https?://.*[^/])?$" "a URL without a slash at its end, such as https://git.example.com/team/ccm-rs/docs/runbooks")
-}}
{{- toJson $rows -}}
{{- end }}

{{- define "ccm.checkTexts" -}}
{{- range include "ccm.textForms" . | fromJsonArray -}}
{{- $path := index . 0 -}}
{{- $value := $.Values -}}
{{- range splitList "." $path -}}
{{- if kindIs "map" $value -}}{{- $value = index $value . -}}{{- end -}}
{{- end -}}
{{- if and (not (kindIs "invalid" $value)) (not (regexMatch (index . 1) (toString $value))) -}}
{{- fail (printf "%s: %q is not valid; accepted is %s" $path (toString $value) (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- range .Values.apiServer.candidates -}}
{{- if not (regexMatch "^https://[^/,@]+$" .) -}}
{{- fail (printf "apiServer.candidates: %q is not valid; accepted is https://HOST:PORT, without a path" .) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* The provider that kubelets are told, which is no cloud. */ -}}
{{- define "ccm.checkProvider" -}}
{{- range list "provider" "cloudProvider" -}}
{{- if eq (toString (index $.Values .)) "external" -}}
{{- fail (printf "%s: \"external\" is the --cloud-provider of kubelets; name the cloud, such as hcloud" .) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "ccm.checkFlags" -}}
{{- if not (kindIs "map" .Values.args) -}}
{{- range .Values.args -}}
{{- if not (regexMatch "^--?[A-Za-z]" .) -}}
{{- fail (printf "args: %q is not a flag; accepted are --FLAG and --FLAG=VALUE, or a map of flags without dashes" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name := list "args" "extraArgs" -}}
{{- $flags := index $.Values $name -}}
{{- if kindIs "map" $flags -}}
{{- range $flag, $_ := $flags -}}
{{- if not (regexMatch "^[A-Za-z][-A-Za-z0-9_]*$" $flag) -}}
{{- fail (printf "%s: %q is not the name of a flag; write it without dashes at its beginning: {%s: …}" $name $flag (regexReplaceAll "^-+" $flag "")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* A duration in milliseconds. */ -}}
{{- define "ccm.milliseconds" -}}
{{- $units := dict "ns" 0.000001 "us" 0.001 "µs" 0.001 "ms" 1.0 "s" 1000.0 "m" 60000.0 "h" 3600000.0 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9]+([.][0-9]+)?[a-zµ]+" (toString .) -1 -}}
{{- $unit := regexReplaceAll "[0-9.]" . "" -}}
{{- $sum = addf $sum (mulf (regexFind "^[0-9.]+" .) (index $units $unit)) -}}
{{- end -}}
{{- $sum -}}
{{- end }}

{{- /* Values of which each is right, and which do not go together. The preset is applied. */ -}}
{{- define "ccm.checkConflicts" -}}
{{- $values := .Values -}}
{{- if and $values.cloudConfig.content $values.cloudConfig.secretName -}}
{{- fail "cloudConfig.content and a Secret with the configuration file (secret or cloudConfig.secretName): there is one configuration file; set one of them" -}}
{{- end -}}
{{- if and (eq $values.kind "DaemonSet") $values.asked -}}
{{- fail (printf "%s: a DaemonSet has a replica on each control-plane node; set kind=Deployment, or remove the value" $values.asked) -}}
{{- end -}}
{{- if $values.leaderElection.enabled -}}
{{- $times := dict -}}
{{- range list "leaseDuration" "renewDeadline" "retryPeriod" -}}
{{- $_ := set $times . (include "ccm.milliseconds" (index $values.leaderElection .) | float64) -}}
{{- end -}}
{{- if le $times.leaseDuration $times.renewDeadline -}}
{{- fail (printf "leaderElection.leaseDuration: %s is not longer than leaderElection.renewDeadline, %s" $values.leaderElection.leaseDuration $values.leaderElection.renewDeadline) -}}
{{- end -}}
{{- if le $times.renewDeadline (mulf $times.retryPeriod 1.2) -}}
{{- fail (printf "leaderElection.renewDeadline: %s is not longer than 1.2 times leaderElection.retryPeriod, %s" $values.leaderElection.renewDeadline $values.leaderElection.retryPeriod) -}}
{{- end -}}
{{- end -}}
{{- $ports := dict "securePort" (int $values.securePort) -}}
{{- if include "ccm.webhooks" . -}}{{- $_ := set $ports "webhook.port" (int $values.webhook.port) -}}{{- end -}}
{{- if $values.metrics.plain.enabled -}}{{- $_ := set $ports "metrics.plain.port" (int $values.metrics.plain.port) -}}{{- end -}}
{{- $owners := dict -}}
{{- range $path, $port := $ports -}}
{{- if gt $port 0 -}}
{{- with index $owners (toString $port) -}}{{- fail (printf "%s and %s are both %d; give each listener a port of its own" . $path $port) -}}{{- end -}}
{{- $_ := set $owners (toString $port) $path -}}
{{- end -}}
{{- end -}}
{{- if and (or $values.metrics.service $values.serviceMonitor.enabled) (not $values.metrics.plain.enabled) (eq (int $values.securePort) 0) -}}
{{- fail "securePort: with 0 there is no port that metrics.service and serviceMonitor could lead to; set a port, or metrics.plain.enabled=true" -}}
{{- end -}}
{{- if and (include "ccm.webhooks" .) $values.webhook.secretName (not $values.webhook.caBundle) (not $values.webhook.annotations) -}}
{{- fail "webhook.caBundle is required with webhook.secretName: without it the API server trusts no certificate of the webhook; or set webhook.annotations, such as cert-manager.io/inject-ca-from" -}}
{{- end -}}
{{- if not (has $values.presetName (list "hcloud" "none")) -}}
{{- range list "networking" "robot" -}}
{{- if eq (toString (index $values . | default dict).enabled) "true" -}}
{{- fail (printf "%s: the value is for Hetzner Cloud, and provider is %s; remove it" . $values.cloudProvider) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $fixed := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" -}}
{{- range $path, $more := dict "labels" list "podLabels" (list "k8s-app" "tier" "component") -}}
{{- range $label, $_ := index $values $path -}}
{{- if has $label (concat $fixed $more) -}}
{{- fail (printf "%s: the chart itself sets the label %s, by which its objects are selected; remove it" $path $label) -}}
{{- end -}}
{{- if and (eq $path "podLabels") (hasKey ($values.labels | default dict) $label) -}}
{{- fail (printf "podLabels and labels both have %s; remove one of them" $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
