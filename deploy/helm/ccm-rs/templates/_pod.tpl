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
- --cloud-provider={{ .Values.cloudProvider }}
{{- if include "ccm.cloudConfig" . }}
- --cloud-config=/etc/cloud/{{ .Values.cloudConfig.key }}
{{- end }}
{{- if .Values.allowUntaggedCloud }}
- --allow-untagged-cloud=true
{{- end }}
{{- with .Values.adoptableLoadBalancerTag }}
- --adoptable-load-balancer-tag={{ . }}
{{- end }}
- --cluster-name={{ .Values.clusterName }}
{{- if .Values.apiServer.nodeAddress }}
{{- fail "apiServer.nodeAddress was removed: a Node has no address before this program has set it, so the Pod could never start; leave it out, or set apiServer.candidates if the node's API server is not on port 6443" }}
{{- end }}
{{- with .Values.apiServer.candidates }}
- --api-server-candidates={{ join "," . }}
{{- end }}
- --controllers={{ join "," $controllers }}
{{- if include "ccm.routes" . }}
- --cluster-cidr={{ .Values.clusterCIDR }}
{{- else }}
- --configure-cloud-routes=false
{{- end }}
- --leader-elect={{ .Values.leaderElection.enabled }}
{{- if .Values.leaderElection.enabled }}
- --leader-elect-resource-name={{ .Values.name }}
- --leader-elect-resource-namespace={{ .Release.Namespace }}
- --leader-elect-lease-duration={{ .Values.leaderElection.leaseDuration }}
- --leader-elect-renew-deadline={{ .Values.leaderElection.renewDeadline }}
- --leader-elect-retry-period={{ .Values.leaderElection.retryPeriod }}
{{- end }}
{{- if .Values.useServiceAccountCredentials }}
- --use-service-account-credentials=true
{{- end }}
- --bind-address={{ .Values.bindAddress }}
- --secure-port={{ .Values.securePort }}
{{- if .Values.tls.secretName }}
- --tls-cert-file=/etc/ccm/tls/tls.crt
- --tls-private-key-file=/etc/ccm/tls/tls.key
{{- end }}
{{- if not .Values.auth.enabled }}
- --authentication-skip-lookup=true
{{- end }}
{{- if .Values.metrics.plain.enabled }}
- --metrics-bind-address={{ .Values.metrics.plain.address }}:{{ .Values.metrics.plain.port }}
{{- end }}
{{- $gates := .Values.featureGates }}
{{- with include "ccm.webhooks" . }}
{{- $gates = merge (dict "CloudControllerManagerWebhook" true) $gates }}
- --webhooks={{ . }}
{{- end }}
{{- if .Values.webhook.services.enabled }}
- --service-validation-action={{ .Values.webhook.services.validationAction }}
{{- end }}
{{- if include "ccm.webhooks" . }}
- --webhook-secure-port={{ .Values.webhook.port }}
- --webhook-tls-cert-file=/etc/ccm/webhook/tls.crt
- --webhook-tls-private-key-file=/etc/ccm/webhook/tls.key
{{- end }}
{{- if $gates }}
{{- $pairs := list }}
{{- range $gate, $on := $gates }}{{ $pairs = append $pairs (printf "%s=%t" $gate $on) }}{{ end }}
- --feature-gates={{ join "," $pairs }}
{{- end }}
- --logging-format={{ .Values.loggingFormat }}
- -v={{ .Values.verbosity }}
{{- range $flag, $value := .Values.extraArgs }}
{{- if kindIs "slice" $value }}
{{- range $value }}
- {{ printf "--%s=%s" $flag (include "ccm.text" .) | quote }}
{{- end }}
{{- else if eq (toString $value) "" }}
- --{{ $flag }}
{{- else }}
- {{ printf "--%s=%s" $flag (include "ccm.text" $value) | quote }}
{{- end }}
{{- end }}
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
    k8s-app: {{ .Values.name }}
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
  serviceAccountName: {{ include "ccm.serviceAccount" . }}
  automountServiceAccountToken: true
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  # Before there is a Pod network, and where the metadata service answers the host alone.
  hostNetwork: {{ .Values.hostNetwork }}
  # The cluster's DNS may not run before the Nodes are initialised.
  dnsPolicy: {{ .Values.dnsPolicy }}
  {{- with .Values.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  priorityClassName: {{ .Values.priorityClassName }}
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
        name: {{ . }}
      {{- else }}
      secret:
        secretName: {{ . }}
        defaultMode: 288 # 0440
      {{- end }}
    {{- end }}
    {{- with .Values.tls.secretName }}
    - name: tls
      secret:
        secretName: {{ . }}
        defaultMode: 288 # 0440
    {{- end }}
    {{- if include "ccm.webhooks" . }}
    - name: webhook-tls
      secret:
        secretName: {{ include "ccm.webhookSecret" . }}
        defaultMode: 288 # 0440
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}

{{- /* What `doctor` needs to know of the configuration. */ -}}
{{- define "ccm.doctorFlags" -}}
--cloud-provider={{ .Values.cloudProvider }}{{ if include "ccm.cloudConfig" . }} --cloud-config=/etc/cloud/{{ .Values.cloudConfig.key }}{{ else if hasKey .Values.extraArgs "cloud-config" }} --cloud-config={{ index .Values.extraArgs "cloud-config" }}{{ end }}
{{- end }}
