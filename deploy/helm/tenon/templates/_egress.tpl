{{/* What pods may reach: DNS and services. Argument: dns, services. */}}
{{- define "tenon.egress" -}}
egress:
  - to:
      {{- toYaml .dns | nindent 6 }}
    ports: [{ protocol: UDP, port: 53 }, { protocol: TCP, port: 53 }]
  {{- range $service, $rule := .services }}
  # {{ $service }}
  - to:
      {{- if $rule.internet }}
      {{- include "tenon.internet" . | nindent 6 }}
      {{- else }}
      {{- toYaml $rule.to | nindent 6 }}
      {{- end }}
    ports:
      {{- range $rule.ports }}
      - { protocol: TCP, port: {{ int . }} }
      {{- end }}
  {{- end }}
{{- end }}

{{/* Public addresses: no private ones, no neighbours on the link, and no metadata service of any cloud. */}}
{{- define "tenon.internet" -}}
- ipBlock:
    cidr: 0.0.0.0/0
    except:
      - 0.0.0.0/8
      - 10.0.0.0/8
      - 100.64.0.0/10
      - 127.0.0.0/8
      - 168.63.129.16/32
      - 169.254.0.0/16
      - 172.16.0.0/12
      - 192.0.0.0/24
      - 192.168.0.0/16
      - 198.18.0.0/15
      - 224.0.0.0/4
      - 240.0.0.0/4
- ipBlock:
    cidr: 2000::/3
    except: ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"]
{{- end }}
