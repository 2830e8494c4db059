{{- /*
Texts whose form the program or Kubernetes requires. They are checked here and not by a pattern of values.schema.json, because
Helm would show the pattern instead of what is accepted.
*/ -}}
{{- define "ccm.textForms" -}}
{{- $name := "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$" -}}
{{- $duration := "^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$" -}}
{{- $rows := list
  (list "name" "^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$" "a name of at most 52 lower-case letters, digits and dashes")
  (list "secret" $name "the name of a Secret: lower-case letters, digits, dots and dashes")
  (list "serviceAccount.name" $name "the name of a ServiceAccount: lower-case letters, digits, dots and dashes")
  (list "cloudConfig.secretName" $name "the name of a Secret: lower-case letters, digits, dots and dashes")
  (list "cloudConfig.configMapName" $name "the name of a ConfigMap: lower-case letters, digits, dots and dashes")
  (list "cloudConfig.key" "^[-._a-zA-Z0-9]+$" "a key of a Secret: letters, digits, dots, dashes and underscores")
  (list "clusterCIDR" "^([0-9A-Fa-f.:]+/[0-9]{1,3}(,[0-9A-Fa-f.:]+/[0-9]{1,3})?)?$" "a range such as 10.244.0.0/16, or one of each family: 10.244.0.0/16,fd00::/56")
  (list "adoptableLoadBalancerTag" "^([A-Za-z0-9_./:-]+(=[A-Za-z0-9_./:-]*)?)?$" "a tag, KEY or KEY=VALUE")
  (list "image.repository" "^[^:@[:space:]]*(:[0-9]+/[^:@[:space:]]+)?$" "a repository without tag and digest, such as registry.example.com/cloud-controller-manager; set image.tag or image.digest")
  (list "image.tag" "^([A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?$" "a tag: letters, digits, underscores, dots and dashes")
  (list "image.digest" "^(sha256:[0-9a-f]{64})?$" "sha256: and 64 hexadecimal digits")
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
