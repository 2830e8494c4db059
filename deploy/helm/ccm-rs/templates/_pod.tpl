{{- define "ccm.args" -}}
{{- $controllers := list }}
{{- if .Values.controllers.node }}{{ $controllers = append $controllers "cloud-node-controller" }}{{ end }}
{{- if .Values.controllers.nodeLifecycle }}{{ $controllers = append $controllers "cloud-node-lifecycle-controller" }}{{ end }}
{{- if .Values.controllers.service }}{{ $controllers = append $controllers "service-lb-controller" }}{{ end }}
{{- if include "ccm.routes" . }}{{ $controllers = append $controllers "node-route-controller" }}{{ end }}
{{- if .Values.controllers.volume }}{{ $controllers = append $controllers "persistent-volume-label-controller" }}{{ end }}
{{- $doubled := dict "cloud-config" (list (include "ccm.cloudConfig" .) "the configuration file of secret and cloudConfig") "tls-cert-file" (list .Values.tls.secretName "tls.secretName") "tls-private-key-file" (list .Values.tls.secretName "tls.secretName") "webhook-secure-port" (list (include "ccm.webhooks" .) "webhook.port") }}
{{- range $flag, $own := $doubled }}
{{- if and (first $own) (hasKey $.Values.extraArgs $flag) }}
{{- fail (printf "args: --%s and %s set the same thing; remove one of them" $flag (last $own)) }}
{{- end }}
{{- end }}
{{- if not $controllers }}{{ fail "controllers: all of them are off, so there is nothing to install; turn one on" }}{{ end }}
{{- if .Values.apiServer.nodeAddress }}
{{- fail "apiServer.nodeAddress was removed: a Node has no address before this program has set it, so the Pod could never start; leave it out, or set apiServer.candidates if the node's API server is not on port 6443" }}
{{- end }}
{{- $args := list (printf "--cloud-provider=%s" .Values.cloudProvider) }}
{{- if include "ccm.cloudConfig" . }}{{ $args = append $args (printf "--cloud-config=/etc/cloud/%s" .Values.cloudConfig.key) }}{{ end }}
{{- if .Values.allowUntaggedCloud }}{{ $args = append $args "--allow-untagged-cloud=true" }}{{ end }}
{{- with .Values.adoptableLoadBalancerTag }}{{ $args = append $args (printf "--adoptable-load-balancer-tag=%s" .) }}{{ end }}
{{- $args = append $args (printf "--cluster-name=%s" .Values.clusterName) }}
{{- with .Values.apiServer.candidates }}{{ $args = append $args (printf "--api-server-candidates=%s" (join "," .)) }}{{ end }}
{{- $args = append $args (printf "--controllers=%s" (join "," $controllers)) }}
{{- if include "ccm.routes" . }}{{ $args = append $args (printf "--cluster-cidr=%s" .Values.clusterCIDR) }}
{{- else }}{{ $args = append $args "--configure-cloud-routes=false" }}
{{- end }}
{{- $args = append $args (printf "--leader-elect=%t" .Values.leaderElection.enabled) }}
{{- if .Values.leaderElection.enabled }}
{{- $args = append $args (printf "--leader-elect-resource-name=%s" .Values.name) }}
{{- $args = append $args (printf "--leader-elect-resource-namespace=%s" .Release.Namespace) }}
{{- $args = append $args (printf "--leader-elect-lease-duration=%s" .Values.leaderElection.leaseDuration) }}
{{- $args = append $args (printf "--leader-elect-renew-deadline=%s" .Values.leaderElection.renewDeadline) }}
{{- $args = append $args (printf "--leader-elect-retry-period=%s" .Values.leaderElection.retryPeriod) }}
{{- end }}
{{- if .Values.useServiceAccountCredentials }}{{ $args = append $args "--use-service-account-credentials=true" }}{{ end }}
{{- $args = append $args (printf "--bind-address=%s" .Values.bindAddress) }}
{{- $args = append $args (printf "--secure-port=%s" (include "ccm.text" .Values.securePort)) }}
{{- if .Values.tls.secretName }}
{{- $args = concat $args (list "--tls-cert-file=/etc/ccm/tls/tls.crt" "--tls-private-key-file=/etc/ccm/tls/tls.key") }}
{{- end }}
{{- if not .Values.auth.enabled }}{{ $args = append $args "--authentication-skip-lookup=true" }}{{ end }}
{{- with .Values.metrics.plain }}
{{- if .enabled }}
{{- $args = append $args (printf "--metrics-bind-address=%s:%s" (include "ccm.host" .address) (include "ccm.text" .port)) }}
{{- end }}
{{- end }}
{{- $gates := .Values.featureGates }}
{{- with include "ccm.webhooks" . }}
{{- $gates = merge (dict "CloudControllerManagerWebhook" true) $gates }}
{{- $args = append $args (printf "--webhooks=%s" .) }}
{{- end }}
{{- if .Values.webhook.services.enabled }}
{{- $args = append $args (printf "--service-validation-action=%s" .Values.webhook.services.validationAction) }}
{{- end }}
{{- if include "ccm.webhooks" . }}
{{- $args = append $args (printf "--webhook-secure-port=%s" (include "ccm.text" .Values.webhook.port)) }}
{{- $args = concat $args (list "--webhook-tls-cert-file=/etc/ccm/webhook/tls.crt" "--webhook-tls-private-key-file=/etc/ccm/webhook/tls.key") }}
{{- end }}
{{- if $gates }}
{{- $pairs := list }}
{{- range $gate, $on := $gates }}{{ $pairs = append $pairs (printf "%s=%t" $gate $on) }}{{ end }}
{{- $args = append $args (printf "--feature-gates=%s" (join "," $pairs)) }}
{{- end }}
{{- $args = append $args (printf "--logging-format=%s" .Values.loggingFormat) }}
{{- $args = append $args (printf "-v=%s" (include "ccm.text" .Values.verbosity)) }}
{{- range $flag, $value := .Values.extraArgs }}
{{- range ternary $value (list $value) (kindIs "slice" $value) }}{{ $args = append $args (printf "--%s=%s" $flag (include "ccm.text" .)) }}{{ end }}
{{- end }}
{{- /* Flags without a value come last: one that needs a value would take the next flag for it. */}}
{{- range .Values.bareFlags }}{{ $args = append $args (printf "--%s" .) }}{{ end }}
{{- range $args }}
{{- if regexMatch "[[:cntrl:]]" . }}
{{- fail (printf "args: %q has a line break or another control character; remove it from the value that sets the flag" .) }}
{{- end }}
{{- end }}
{{- toYaml $args }}
{{- end }}

{{- /* A host before a port: an IPv6 address is in brackets. */ -}}
{{- define "ccm.host" -}}
{{- if and (contains ":" .) (not (hasPrefix "[" .)) }}[{{ . }}]{{ else }}{{ . }}{{ end -}}
{{- end }}

{{- define "ccm.tolerations" -}}
{{- if kindIs "slice" .Values.tolerations }}
{{- toYaml .Values.tolerations }}
{{- else }}
{{- if eq .Values.tolerations.style "any" -}}
# All of them: a CNI may add taints of its own that go only after this has set the Node's addresses.
- operator: Exists
{{- else -}}
- key: node.cloudprovider.kubernetes.io/uninitialized
  operator: Exists
  effect: NoSchedule
- key: node-role.kubernetes.io/control-plane
  operator: Exists
  effect: NoSchedule
- key: node-role.kubernetes.io/master
  operator: Exists
  effect: NoSchedule
- key: node.kubernetes.io/not-ready
  operator: Exists
  effect: NoSchedule
- key: node.kubernetes.io/not-ready
  operator: Exists
  effect: NoExecute
- key: node.kubernetes.io/network-unavailable
  operator: Exists
  effect: NoSchedule
- key: node.kubernetes.io/unreachable
  operator: Exists
  effect: NoExecute
  tolerationSeconds: 30
- key: CriticalAddonsOnly
  operator: Exists
{{- end }}
{{- with .Values.tolerations.extra }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- with .Values.additionalTolerations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* A security context with the fields of a value over the chart's. */ -}}
{{- define "ccm.securityContext" -}}
{{- if .own }}{{ mergeOverwrite (.chart | fromYaml) .own | toYaml }}{{ else }}{{ .chart }}{{ end }}
{{- end }}

{{- define "ccm.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "ccm.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "ccm.affinity" -}}
{{- if .Values.affinity }}
{{- toYaml .Values.affinity }}
{{- else }}
{{- if .Values.controlPlaneOnly -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - key: node-role.kubernetes.io/control-plane
            operator: Exists
{{- end }}
{{- if and (eq .Values.kind "Deployment") (gt (int .Values.replicas) 1) }}
podAntiAffinity:
  {{- /* On the host's network two cannot share a node: they want the same ports. */}}
  {{- if .Values.hostNetwork }}
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "ccm.selector" . | nindent 10 }}
  {{- else }}
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "ccm.selector" . | nindent 12 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "ccm.probe" -}}
httpGet:
  scheme: HTTPS
  {{- if .root.Values.hostNetwork }}
  host: {{ if has .root.Values.bindAddress (list "0.0.0.0" "::" "127.0.0.1") }}127.0.0.1{{ else }}{{ .root.Values.bindAddress | quote }}{{ end }}
  {{- end }}
  path: {{ .path }}
  port: {{ .root.Values.securePort }}
{{ toYaml .probe }}
{{- end }}

{{- define "ccm.pod" -}}
metadata:
  labels:
    {{- include "ccm.labels" . | nindent 4 }}
    k8s-app: {{ toYaml .Values.name }}
    tier: control-plane
    component: cloud-controller-manager
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "ccm.serviceAccount" . | toYaml }}
  automountServiceAccountToken: true
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  # Before there is a Pod network, and where the metadata service answers the host alone.
  hostNetwork: {{ .Values.hostNetwork }}
  # The cluster's DNS may not run before the Nodes are initialised.
  dnsPolicy: {{ toYaml .Values.dnsPolicy }}
  {{- with .Values.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  priorityClassName: {{ toYaml .Values.priorityClassName }}
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "ccm.affinity" . | trim }}
  affinity:
    {{- . | nindent 4 }}
  {{- end }}
  tolerations:
    {{- include "ccm.tolerations" . | nindent 4 }}
  securityContext:
    {{- include "ccm.securityContext" (dict "chart" (include "ccm.podSecurityContext" .) "own" .Values.podSecurityContext) | nindent 4 }}
  containers:
    - name: cloud-controller-manager
      image: {{ include "ccm.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      # `kubectl describe pod` shows the end of the log of a container that failed, such as a refused credential.
      terminationMessagePolicy: FallbackToLogsOnError
      args:
        {{- include "ccm.args" . | trim | nindent 8 }}
      {{- if or .Values.apiServer.host .Values.extraEnv }}
      env:
        {{- if .Values.apiServer.host }}
        - name: KUBERNETES_SERVICE_HOST
          value: {{ .Values.apiServer.host | quote }}
        - name: KUBERNETES_SERVICE_PORT
          value: {{ .Values.apiServer.port | quote }}
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      {{- with .Values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if or (gt (int .Values.securePort) 0) .Values.metrics.plain.enabled (include "ccm.webhooks" .) }}
      ports:
        {{- if gt (int .Values.securePort) 0 }}
        - name: https
          containerPort: {{ .Values.securePort }}
        {{- end }}
        {{- if .Values.metrics.plain.enabled }}
        - name: http-metrics
          containerPort: {{ .Values.metrics.plain.port }}
        {{- end }}
        {{- if include "ccm.webhooks" . }}
        - name: webhook
          containerPort: {{ .Values.webhook.port }}
        {{- end }}
      {{- end }}
      {{- if gt (int .Values.securePort) 0 }}
      startupProbe:
        {{- include "ccm.probe" (dict "root" . "path" "/healthz" "probe" .Values.startupProbe) | nindent 8 }}
      livenessProbe:
        {{- include "ccm.probe" (dict "root" . "path" "/healthz" "probe" .Values.livenessProbe) | nindent 8 }}
      readinessProbe:
        {{- include "ccm.probe" (dict "root" . "path" "/readyz" "probe" .Values.readinessProbe) | nindent 8 }}
      {{- end }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- include "ccm.securityContext" (dict "chart" (include "ccm.containerSecurityContext" .) "own" .Values.securityContext) | nindent 8 }}
      {{- if or (include "ccm.cloudConfig" .) .Values.tls.secretName (include "ccm.webhooks" .) .Values.extraVolumeMounts }}
      volumeMounts:
        {{- if include "ccm.cloudConfig" . }}
        - name: cloud-config
          mountPath: /etc/cloud
          readOnly: true
        {{- end }}
        {{- if .Values.tls.secretName }}
        - name: tls
          mountPath: /etc/ccm/tls
          readOnly: true
        {{- end }}
        {{- if include "ccm.webhooks" . }}
        - name: webhook-tls
          mountPath: /etc/ccm/webhook
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
  {{- if or (include "ccm.cloudConfig" .) .Values.tls.secretName (include "ccm.webhooks" .) .Values.extraVolumes }}
  volumes:
    {{- with include "ccm.cloudConfig" . }}
    # A directory, not a subPath: only so a changed Secret reaches the process.
    - name: cloud-config
      {{- if $.Values.cloudConfig.configMapName }}
      configMap:
        name: {{ . | toYaml }}
      {{- else }}
      secret:
        secretName: {{ . | toYaml }}
        defaultMode: 288 # 0440
      {{- end }}
    {{- end }}
    {{- with .Values.tls.secretName }}
    - name: tls
      secret:
        secretName: {{ . | toYaml }}
        defaultMode: 288 # 0440
    {{- end }}
    {{- if include "ccm.webhooks" . }}
    - name: webhook-tls
      secret:
        secretName: {{ include "ccm.webhookSecret" . | toYaml }}
        defaultMode: 288 # 0440
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}

{{- /* The arguments by which `doctor` and `explain` see what the manager sees, for a shell; defaults are left out. */ -}}
{{- define "ccm.doctorFlags" -}}
{{- $flags := list }}
{{- $main := list "cloud-provider" "cloud-config" "allow-untagged-cloud" "cluster-name" "controllers" "cluster-cidr" "configure-cloud-routes" "leader-elect" "leader-elect-resource-name" "leader-elect-resource-namespace" "use-service-account-credentials" "authentication-skip-lookup" "webhooks" "feature-gates" }}
{{- $base := "--controllers=cloud-node-controller,cloud-node-lifecycle-controller,service-lb-controller" }}
{{- $defaults := list "--cluster-name=kubernetes" "--leader-elect=true" "--leader-elect-resource-name=cloud-controller-manager" "--leader-elect-resource-namespace=kube-system" $base (printf "%s,node-route-controller" $base) }}
{{- range include "ccm.args" . | fromYamlArray }}
{{- $name := regexReplaceAll "^--?([^=]*).*$" . "${1}" }}
{{- if and (or (has $name $main) (hasKey $.Values.extraArgs $name)) (not (has . $defaults)) }}
{{- $flags = append $flags (ternary . (printf "'%s'" (replace "'" "'\\''" .)) (regexMatch "^[-A-Za-z0-9_@%+=:,./]+$" .)) }}
{{- end }}
{{- end }}
{{- join " " $flags }}
{{- end }}
