{{- /* Names of values and flags that people know from the charts of vendors. */ -}}

{{- /* Resolves other names of values that mean the same. */ -}}
{{- define "ccm.resolveNames" -}}
{{- $values := .Values -}}
{{- with $values.secret -}}
{{- if kindIs "map" . -}}
{{- $_ := set $values "secret" (ternary "" (.name | default "") (eq (toString .enabled) "false")) -}}
{{- end -}}
{{- end -}}
{{- with $values.secretRef -}}
{{- with .mountPath -}}
{{- fail (printf "secretRef.mountPath: the chart mounts the Secret where the program reads it; remove %q" .) -}}
{{- end -}}
{{- if or (ne (.apiTokenRef | default "apiToken") "apiToken") (ne (.regionRef | default "region") "region") -}}
{{- fail "secretRef: the keys of the Secret are apiToken and region; other names are not supported" -}}
{{- end -}}
{{- if not $values.secret -}}{{- $_ := set $values "secret" (.name | default "") -}}{{- end -}}
{{- end -}}
{{- with $values.cluster -}}{{- with .name -}}{{- $_ := set $values "clusterName" . -}}{{- end -}}{{- end -}}
{{- if not (kindIs "invalid" $values.logVerbosityLevel) -}}{{- $_ := set $values "verbosity" $values.logVerbosityLevel -}}{{- end -}}
{{- if $values.enabledControllers -}}
{{- $names := dict "cloud-node" "node" "cloud-node-lifecycle" "nodeLifecycle" "route" "route" "service" "service" -}}
{{- range $theirs, $ours := $names -}}
{{- $_ := set $values.controllers $ours (or (has $theirs $values.enabledControllers) (has "*" $values.enabledControllers)) -}}
{{- end -}}
{{- range $name := $values.enabledControllers -}}
{{- if hasPrefix "-" $name -}}
{{- if not (hasKey $names (trimPrefix "-" $name)) -}}{{- fail (printf "enabledControllers: %q is unknown; known are %s" $name (join ", " (keys $names | sortAlpha))) -}}{{- end -}}
{{- $_ := set $values.controllers (index $names (trimPrefix "-" $name)) false -}}
{{- else if not (or (eq $name "*") (hasKey $names $name)) -}}
{{- fail (printf "enabledControllers: %q is unknown; known are *, %s" $name (join ", " (keys $names | sortAlpha))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range list "networking" "robot" -}}
{{- with index $values . -}}{{- $_ := set . "enabled" (eq (toString .enabled) "true") -}}{{- end -}}
{{- end -}}
{{- with $values.networking -}}
{{- if and .enabled (not $values.clusterCIDR) -}}{{- $_ := set $values "clusterCIDR" (.clusterCIDR | default "10.244.0.0/16") -}}{{- end -}}
{{- end -}}
{{- $_ := set $values "asked" (ternary "replicas" "" (gt (int $values.replicas) 1)) -}}
{{- with $values.replicaCount -}}
{{- $_ := set $values "replicas" . -}}
{{- $_ := set $values "asked" (ternary "replicaCount" "" (gt (int .) 1)) -}}
{{- end -}}
{{- /* In the values files of vendors an empty list is a placeholder; without any toleration the Pod never starts. */ -}}
{{- if and (kindIs "slice" $values.tolerations) (not $values.tolerations) -}}{{- $_ := set $values "tolerations" nil -}}{{- end -}}
{{- with $values.serviceAccountName -}}{{- $_ := set $values.serviceAccount "name" . -}}{{- end -}}
{{- $pulls := list -}}
{{- range concat ($values.image.pullSecrets | default list) ($values.imagePullSecrets | default list) -}}
{{- $pulls = append $pulls (ternary (dict "name" .) . (kindIs "string" .)) -}}
{{- end -}}
{{- $_ := set $values.image "pullSecrets" (uniq $pulls) -}}
{{- $env := list -}}
{{- range $those := list $values.extraEnv $values.env -}}
{{- if kindIs "map" $those -}}
{{- range $name, $value := $those -}}
{{- if kindIs "map" $value -}}{{- $env = append $env (merge (dict "name" $name) $value) -}}
{{- else if not (kindIs "invalid" $value) -}}{{- $env = append $env (dict "name" $name "value" (include "ccm.text" $value)) -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- range $those -}}
{{- $it := . -}}
{{- if not (or (kindIs "invalid" .value) (kindIs "string" .value)) -}}{{- $it = merge (dict "value" (include "ccm.text" .value)) . -}}{{- end -}}
{{- $env = append $env $it -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* The last one of a name counts, in the place of the first. */ -}}
{{- $last := dict -}}
{{- $names := list -}}
{{- range $env -}}{{- $_ := set $last (toString .name) . -}}{{- $names = append $names (toString .name) -}}{{- end -}}
{{- $env = list -}}
{{- range uniq $names -}}{{- $env = append $env (index $last .) -}}{{- end -}}
{{- with $values.networking -}}
{{- if and .enabled .network (not (hasKey $last "HCLOUD_NETWORK")) -}}{{- $env = append $env (merge (dict "name" "HCLOUD_NETWORK") .network) -}}{{- end -}}
{{- end -}}
{{- with $values.robot -}}
{{- if and .enabled (not (hasKey $last "ROBOT_ENABLED")) -}}{{- $env = append $env (dict "name" "ROBOT_ENABLED" "value" "true") -}}{{- end -}}
{{- end -}}
{{- $_ := set $values "extraEnv" $env -}}
{{- $_ := set $values "extraEnvFrom" (concat ($values.extraEnvFrom | default list) ($values.envFrom | default list)) -}}
{{- $_ := set $values "extraVolumes" (concat ($values.extraVolumes | default list) ($values.volumes | default list)) -}}
{{- $_ := set $values "extraVolumeMounts" (concat ($values.extraVolumeMounts | default list) ($values.volumeMounts | default list)) -}}
{{- end }}

{{- /* Values of vendors' charts that mean something else here, or nothing. The schema lets them pass, so that this text is shown. */ -}}
{{- define "ccm.foreign" -}}
allowUnauthorizedMetrics: set metrics.plain.enabled=true, which opens a listener without authentication
apiToken: a credential in the values is stored in the release; create a Secret with the key apiToken and set secret to its name
cloudControllerManager: its settings are values of their own in this chart. clusterName, clusterCIDR, bindAddress, securePort, replicas, nodeSelector, tolerations and leaderElection have the same names; imageRepository, imageName and imageTag are image.repository and image.tag, logVerbosity is verbosity, configureCloudRoutes is controllers.route, cloudConfig is args.cloud-config with extraVolumes and extraVolumeMounts, and its other settings are flags in extraArgs
cloudNodeManager: cloud-node-manager is another program; this chart installs the cloud controller manager alone
clusterRoleName: the chart names its roles after the value name; for rules of your own set rbac.extraRules
clusterRoleRules: the chart grants what the controllers need; set rbac.extraRules for further rules
commonAnnotations: the chart has podAnnotations, serviceAccount.annotations and webhook.annotations
containerSecurityContext: set securityContext, which is that of the container
controllerExtraArgs: set extraArgs
extraInitContainers: the chart has no init containers; the program waits for the API server itself
fullnameOverride: set name, which is also the name of the Lease; it is for a second manager in the same cluster only
hostNetworking: set hostNetwork
infra: set clusterName
k8sServiceHost: set apiServer.host
k8sServicePort: set apiServer.port
livenessProbe.httpGet: the chart sets the path and the port of the probes; set the times only
monitoring.podMonitor: set serviceMonitor.enabled=true and metrics.scrapers. A PodMonitor cannot use the token of Prometheus' ServiceAccount
nameOverride: set name, which is also the name of the Lease; it is for a second manager in the same cluster only
nodeBalancerTags: set extraArgs.nodebalancer-tags
podMonitor: set serviceMonitor.enabled=true and metrics.scrapers. A PodMonitor cannot use the token of Prometheus' ServiceAccount
readinessProbe.httpGet: the chart sets the path and the port of the probes; set the times only
region: put the key region into the Secret, or set env.LINODE_REGION
roleBindingName: the chart names its roles after the value name
roleName: the chart names its roles after the value name
routeController: set clusterCIDR
selectorLabels: the labels of the selector are fixed, because Kubernetes refuses their change
serviceMonitor.additionalLabels: set serviceMonitor.labels
sharedIPLoadBalancing: set the flags in extraArgs, such as extraArgs.load-balancer-type
strategy: the chart chooses it, because two replicas on one node would need the same ports
tokenHealthChecker: set extraArgs.enable-token-health-checker
updateStrategy: the chart chooses it, because two replicas on one node would need the same ports
vpcName: set extraArgs.vpc-names
topologySpreadConstraints: set affinity
vpcNames: set extraArgs.vpc-names
{{- end }}

{{- define "ccm.refuseForeign" -}}
{{- $found := list -}}
{{- range $name, $hint := include "ccm.foreign" . | fromYaml -}}
{{- $value := $.Values -}}
{{- range splitList "." $name -}}{{- $value = ternary (index ($value | default dict) .) nil (kindIs "map" $value) -}}{{- end -}}
{{- /* What is empty or switched off means nothing, in a vendor's values file as well. */ -}}
{{- $isOff := and (kindIs "map" $value) (hasKey ($value | default dict) "enabled") (not ($value | default dict).enabled) -}}
{{- if and $value (not $isOff) -}}{{- $found = append $found (printf "%s is not a value of this chart: %s" $name $hint) -}}{{- end -}}
{{- end -}}
{{- with .Values.monitoring -}}
{{- if eq (toString .enabled) "false" -}}{{- $found = append $found "monitoring.enabled=false is not a value of this chart: set env.HCLOUD_METRICS_ENABLED=false" -}}{{- end -}}
{{- end -}}
{{- if and (kindIs "map" .Values.secret) (.Values.secret | default dict).create -}}
{{- $found = append $found "secret.create: this chart creates no Secret from values; create it with kubectl and set secret to its name, or set cloudConfig.content for a first try" -}}
{{- end -}}
{{- with .Values.namespace -}}
{{- if ne . $.Release.Namespace -}}
{{- $found = append $found (printf "namespace is %q, and the release is in %q: run helm with --namespace %s, and remove the value" . $.Release.Namespace .) -}}
{{- end -}}
{{- end -}}
{{- range $name := list "global" "networking" "loadBalancer" "blockStorage" "metadata" "route" -}}
{{- if index $.Values.cloudConfig $name -}}
{{- $found = append $found (printf "cloudConfig.%s: this chart does not write the configuration file; put the file into a Secret and set secret to its name, or set cloudConfig.content to its text" $name) -}}
{{- end -}}
{{- end -}}
{{- range list "fsGroup" "fsGroupChangePolicy" "supplementalGroups" "sysctls" -}}
{{- if hasKey ($.Values.securityContext | default dict) . -}}
{{- $found = append $found (printf "securityContext.%s: securityContext is that of the container, which has no such field; set podSecurityContext.%s" . .) -}}
{{- end -}}
{{- end -}}
{{- with include "ccm.checkImage" . -}}{{- $found = append $found . -}}{{- end -}}
{{- if $found -}}{{- fail (join "\n" $found) -}}{{- end -}}
{{- end }}

{{- /* Flags that have a value: the value, its type, and what the schema of the value accepts. */ -}}
{{- define "ccm.flagsOfValues" -}}
adoptable-load-balancer-tag: {path: adoptableLoadBalancerTag, type: text}
allow-untagged-cloud: {path: allowUntaggedCloud, type: switch}
bind-address: {path: bindAddress, type: text, shape: "^.{2,}$", accepted: an IP address}
cloud-provider: {path: provider, type: text, shape: "^.+$", accepted: the name of a cloud}
cluster-cidr: {path: clusterCIDR, type: text}
cluster-name: {path: clusterName, type: text, shape: "^.+$", accepted: the name of the cluster}
configure-cloud-routes: {path: controllers.route, type: switch}
leader-elect: {path: leaderElection.enabled, type: switch}
leader-elect-lease-duration: {path: leaderElection.leaseDuration, type: text}
leader-elect-renew-deadline: {path: leaderElection.renewDeadline, type: text}
leader-elect-retry-period: {path: leaderElection.retryPeriod, type: text}
logging-format: {path: loggingFormat, type: text, shape: "^(text|json)$", accepted: text or json}
secure-port: {path: securePort, type: number, most: 65535}
use-service-account-credentials: {path: useServiceAccountCredentials, type: switch}
v: {path: verbosity, type: number, most: 10}
{{- end }}

{{- /* Flags that the chart sets by other values, whose permissions, ports or volumes belong to them. */ -}}
{{- define "ccm.flagsRefused" -}}
api-server-candidates: set apiServer.candidates
authentication-skip-lookup: set auth.enabled=false
controllers: set controllers.node, controllers.nodeLifecycle, controllers.service, controllers.route and controllers.volume
leader-elect-resource-name: set name
leader-elect-resource-namespace: run helm with --namespace
metrics-bind-address: set metrics.plain
service-validation-action: set webhook.services.validationAction
webhooks: set webhook.enabled and webhook.services.enabled
{{- end }}

{{- /* The name of a flag as the program reads it: `_` is `-`. */ -}}
{{- define "ccm.flagName" -}}
{{- . | lower | replace "_" "-" -}}
{{- end }}

{{- /* "true" or "false" for a switch, as the program reads it; without a value it is on. */ -}}
{{- define "ccm.switch" -}}
{{- if has .text (list "" "1" "t" "T" "true" "TRUE" "True") -}}true
{{- else if has .text (list "0" "f" "F" "false" "FALSE" "False") -}}false
{{- else -}}{{- fail (printf "args: --%s=%s is not valid; accepted are true and false" .flag .text) -}}
{{- end -}}
{{- end }}

{{- /* Adds the value of a flag to `flags`; a list is the flag several times. */ -}}
{{- define "ccm.addFlag" -}}
{{- $flag := include "ccm.flagName" .flag -}}
{{- $values := ternary .value (list .value) (kindIs "slice" .value) -}}
{{- if .join -}}{{- $values = concat (index .flags $flag | default list) $values -}}{{- end -}}
{{- if $values -}}{{- $_ := set .flags $flag $values -}}{{- end -}}
{{- end }}

{{- /*
Reads `args` (a list of --flag=value, or a map) and `extraArgs`. Flags that have a value set it; the others stay in extraArgs, and
those without a value in bareFlags.
*/ -}}
{{- define "ccm.resolveFlags" -}}
{{- $flags := dict -}}
{{- $bare := list -}}
{{- $ours := include "ccm.flagsOfValues" . | fromYaml -}}
{{- if kindIs "map" .Values.args -}}
{{- range $flag, $value := .Values.args -}}
{{- if not (kindIs "invalid" $value) -}}{{- include "ccm.addFlag" (dict "flags" $flags "flag" $flag "value" $value) -}}{{- end -}}
{{- end -}}
{{- else -}}
{{- range .Values.args -}}
{{- $pair := regexSplit "=" (regexReplaceAll "^--?" (regexReplaceAll "^-v([0-9]+)$" . "-v=${1}") "") 2 -}}
{{- $flag := include "ccm.flagName" (index $pair 0) -}}
{{- if or (eq (len $pair) 2) (eq (index $ours $flag | default dict).type "switch") -}}
{{- include "ccm.addFlag" (dict "flags" $flags "flag" $flag "value" (ternary (last $pair) "" (eq (len $pair) 2)) "join" true) -}}
{{- else if hasKey $ours $flag -}}
{{- fail (printf "args: --%s has no value; write --%s=VALUE" $flag $flag) -}}
{{- else -}}
{{- $bare = append $bare $flag -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $flag, $value := .Values.extraArgs -}}
{{- if not (kindIs "invalid" $value) -}}
{{- include "ccm.addFlag" (dict "flags" $flags "flag" $flag "value" $value) -}}
{{- $bare = without $bare (include "ccm.flagName" $flag) -}}
{{- end -}}
{{- end -}}
{{- $refused := include "ccm.flagsRefused" . | fromYaml -}}
{{- $rest := dict -}}
{{- range concat (keys $flags) $bare | sortAlpha -}}
{{- if hasKey $refused . -}}
{{- fail (printf "args: --%s belongs to another value: %s" . (index $refused .)) -}}
{{- end -}}
{{- end -}}
{{- range $flag, $values := $flags -}}
{{- if hasKey $ours $flag -}}
{{- $text := include "ccm.text" (last $values) -}}
{{- $it := index $ours $flag -}}
{{- $typed := $text -}}
{{- if eq $it.type "switch" -}}{{- $typed = eq (include "ccm.switch" (dict "flag" $flag "text" $text)) "true" -}}{{- end -}}
{{- if eq $it.type "number" -}}
{{- if or (not (regexMatch "^[0-9]{1,6}$" $text)) (gt (int64 $text) (int64 $it.most)) -}}
{{- fail (printf "args: --%s=%s is not valid; accepted is a number from 0 to %d" $flag $text (int64 $it.most)) -}}
{{- end -}}
{{- $typed = int64 (regexReplaceAll "^0+([0-9])" $text "${1}") -}}
{{- end -}}
{{- if and $it.shape (not (regexMatch $it.shape $text)) -}}
{{- fail (printf "args: --%s=%s is not valid; accepted is %s" $flag $text $it.accepted) -}}
{{- end -}}
{{- if and (eq $flag "cloud-provider") (or $.Values.provider $.Values.cloudProvider) (ne $text ($.Values.provider | default $.Values.cloudProvider)) -}}
{{- fail (printf "args: --cloud-provider=%s and provider=%s differ; remove the flag" $text ($.Values.provider | default $.Values.cloudProvider)) -}}
{{- end -}}
{{- /* --configure-cloud-routes=true is the default; the preset may know better. */ -}}
{{- if not (and (eq $flag "configure-cloud-routes") (eq (toString $typed) "true")) -}}
{{- $parts := splitList "." $it.path -}}
{{- if eq (len $parts) 1 -}}{{- $_ := set $.Values $it.path $typed -}}
{{- else -}}{{- $_ := set (index $.Values (first $parts)) (last $parts) $typed -}}
{{- end -}}
{{- end -}}
{{- else if eq $flag "feature-gates" -}}
{{- range $pair := splitList "," (join "," $values) -}}
{{- $gate := splitList "=" $pair -}}
{{- if and $pair (ne (len $gate) 2) -}}
{{- fail (printf "args: --feature-gates: %q is not valid; accepted is GATE=true or GATE=false" $pair) -}}
{{- end -}}
{{- if $pair -}}
{{- $_ := set $.Values.featureGates (trim (first $gate)) (eq (include "ccm.switch" (dict "flag" (printf "feature-gates=%s" (first $gate)) "text" (trim (last $gate)))) "true") -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- $_ := set $rest $flag $values -}}
{{- end -}}
{{- end -}}
{{- $_ := set .Values "extraArgs" $rest -}}
{{- $_ := set .Values "bareFlags" $bare -}}
{{- end }}
