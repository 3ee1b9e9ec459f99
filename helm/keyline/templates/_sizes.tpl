{{/* Sizes as the gateway's settings and as Kubernetes write them, in bytes: 64MiB, 64 mb, 1536Mi, 1.5G, 1024. */}}

{{- define "keyline.bytes" -}}
{{- $text := . | lower | replace " " "" | trimSuffix "b" -}}
{{- $units := dict "" 1 "k" 1e3 "m" 1e6 "g" 1e9 "t" 1e12 "ki" 1024 "mi" 1048576 "gi" 1073741824 "ti" 1099511627776 -}}
{{- $unit := regexFind "[a-z]*$" $text -}}
{{- mulf (trimSuffix $unit $text | float64) (get $units $unit | float64) | printf "%f" -}}
{{- end -}}

{{/* A setting as a number, in bytes if it is a size. */}}
{{- define "keyline.number" -}}
{{- if kindIs "string" . }}{{ include "keyline.bytes" . }}{{ else }}{{ float64 . | printf "%f" }}{{ end -}}
{{- end -}}

{{/* A value as a person wrote it. YAML's numbers are floats here, and print with an exponent if left alone. */}}
{{- define "keyline.shown" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end -}}
