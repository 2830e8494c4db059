{{- /* An object of the cluster as JSON: (list apiVersion kind namespace name). Empty if there is none, and without a cluster. */ -}}
{{- define "ccm.find" -}}
{{- with lookup (index . 0) (index . 1) (index . 2) (index . 3) -}}{{- toJson . -}}{{- end -}}
{{- end }}
