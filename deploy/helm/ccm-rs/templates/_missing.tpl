{{- /* What the installation needs and the cluster lacks, as a JSON list of sentences. */ -}}
{{- define "ccm.missing" -}}
{{- $namespace := .Release.Namespace -}}
{{- $preset := .Values.theirPreset -}}
{{- $missing := list -}}
{{- /* Name of a Secret: its keys that are needed, each with its meaning. */ -}}
{{- $secrets := dict -}}
{{- with .Values.secret -}}
{{- $name := . -}}
{{- $wanted := dict -}}
{{- range $preset.secret.keys -}}
{{- $isFile := has .name (list "cloud-config" "cloud.conf" "cloud.yaml" "cloud-provider.yaml") -}}
{{- $isNeeded := ternary (and (eq (include "ccm.cloudConfig" $) $name) (eq .name $.Values.cloudConfig.key)) (not .optional) $isFile -}}
{{- if $isNeeded -}}{{- $_ := set $wanted .name .meaning -}}{{- end -}}
{{- end -}}
{{- $_ := set $secrets $name $wanted -}}
{{- end -}}
{{- if and (include "ccm.cloudConfig" .) (not .Values.cloudConfig.configMapName) (not .Values.cloudConfig.content) -}}
{{- $name := include "ccm.cloudConfig" . -}}
{{- $wanted := index $secrets $name | default dict -}}
{{- if not (hasKey $wanted .Values.cloudConfig.key) -}}{{- $_ := set $wanted .Values.cloudConfig.key "The configuration file." -}}{{- end -}}
{{- $_ := set $secrets $name $wanted -}}
{{- end -}}
{{- /* Keys that variables of the Pod read. */ -}}
{{- $env := dict -}}
{{- range .Values.extraEnv -}}
{{- $_ := set $env .name (.value | default "") -}}
{{- with (.valueFrom | default dict).secretKeyRef -}}
{{- if not .optional -}}
{{- $wanted := index $secrets .name | default dict -}}
{{- $ref := . -}}
{{- $meaning := "A variable of the Pod reads it." -}}
{{- if eq .name (toString $.Values.secret) -}}
{{- range $preset.secret.keys -}}{{- if eq .name $ref.key -}}{{- $meaning = .meaning -}}{{- end -}}{{- end -}}
{{- end -}}
{{- if not (hasKey $wanted .key) -}}{{- $_ := set $wanted .key $meaning -}}{{- end -}}
{{- $_ := set $secrets .name $wanted -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.secret (eq (toString (index $env "ROBOT_ENABLED")) "true") -}}
{{- range $key, $file := dict "robot-user" "ROBOT_USER_FILE" "robot-password" "ROBOT_PASSWORD_FILE" -}}
{{- if eq (toString (index $env $file)) (printf "/etc/hcloud/%s" $key) -}}
{{- $_ := set (index $secrets $.Values.secret) $key "The Robot web service needs it." -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $wanted := dict "tls" .Values.tls.secretName "webhook" (ternary .Values.webhook.secretName "" (not (empty (include "ccm.webhooks" .)))) -}}
{{- if $wanted -}}
{{- $_ := set $secrets $wanted (dict "tls.crt" "The certificate." "tls.key" "The key of the certificate.") -}}
{{- end -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled .Values.tls.secretName (not .Values.serviceMonitor.tlsConfig) (not .Values.metrics.plain.enabled) -}}
{{- $_ := set (index $secrets .Values.tls.secretName) "ca.crt" "The CA with which Prometheus verifies the certificate." -}}
{{- end -}}
{{- range $name, $wanted := $secrets -}}
{{- $secret := include "ccm.find" (list "v1" "Secret" $namespace $name) -}}
{{- if not $secret -}}
{{- $text := printf "The Secret %s does not exist in %s, so the Pods wait for it." $name $namespace -}}
{{- if eq $name (toString $.Values.secret) -}}{{- $text = printf "%s Create it:\n\n  kubectl -n %s create secret generic %s %s" $text $namespace $name $preset.secret.create -}}{{- end -}}
{{- $missing = append $missing $text -}}
{{- else -}}
{{- $data := (fromJson $secret).data | default dict -}}
{{- range $key, $meaning := $wanted -}}
{{- if not (hasKey $data $key) -}}{{- $missing = append $missing (printf "The Secret %s lacks the key %s: %s" $name $key $meaning) -}}
{{- else if not (index $data $key) -}}{{- $missing = append $missing (printf "The key %s of the Secret %s is empty: %s" $key $name $meaning) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.cloudConfig.configMapName -}}
{{- $found := include "ccm.find" (list "v1" "ConfigMap" $namespace .) -}}
{{- if not $found -}}{{- $missing = append $missing (printf "The ConfigMap %s does not exist in %s, so the Pods wait for it." . $namespace) -}}
{{- else if not (hasKey ((fromJson $found).data | default dict) $.Values.cloudConfig.key) -}}
{{- $missing = append $missing (printf "The ConfigMap %s lacks the key %s: The configuration file." . $.Values.cloudConfig.key) -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not (include "ccm.find" (list "v1" "ServiceAccount" $namespace (include "ccm.serviceAccount" .)))) -}}
{{- $missing = append $missing (printf "The ServiceAccount %s does not exist in %s, so no Pod is created." (include "ccm.serviceAccount" .) $namespace) -}}
{{- end -}}
{{- /* Nodes are read only where the Pods need one with the label of the control plane, and by who may grant that to the Pods. */ -}}
{{- if and .Values.rbac.create .Values.controlPlaneOnly (not .Values.affinity) (not .Values.nodeSelector) -}}
{{- $nodes := (include "ccm.find" (list "v1" "Node" "" "") | fromJson).items | default list -}}
{{- $isThere := false -}}
{{- range $nodes -}}{{- if hasKey (.metadata.labels | default dict) "node-role.kubernetes.io/control-plane" -}}{{- $isThere = true -}}{{- end -}}{{- end -}}
{{- if and $nodes (not $isThere) -}}
{{- $missing = append $missing "No Node has the label node-role.kubernetes.io/control-plane, so no Pod runs. On a managed control plane upgrade with --set controlPlaneOnly=false; elsewhere label the Nodes of the control plane." -}}
{{- end -}}
{{- end -}}
{{- toJson $missing -}}
{{- end }}
