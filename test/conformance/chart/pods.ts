/** The pods that a rendering of the chart makes. */

import type { KubeObject } from './helm.ts'

interface Variable {
  readonly name: string
  readonly value?: string
  readonly valueFrom?: { readonly secretKeyRef?: { readonly name: string; readonly key: string } }
}

export interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string }
  readonly periodSeconds: number
  readonly failureThreshold: number
}

export interface Container {
  readonly name: string
  readonly image: string
  readonly command?: unknown
  readonly args: readonly string[]
  readonly env: readonly Variable[]
  readonly envFrom?: unknown
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[]
  readonly resources: {
    readonly requests: Readonly<Record<string, string>>
    readonly limits: Readonly<Record<string, string>>
  }
  readonly securityContext: Readonly<Record<string, unknown>>
  readonly startupProbe?: Probe
  readonly livenessProbe?: Probe
  readonly readinessProbe?: Probe
}

interface PodSpec {
  readonly containers: readonly Container[]
  readonly initContainers?: readonly Container[]
  readonly securityContext: Readonly<Record<string, unknown>>
  readonly volumes: readonly Readonly<Record<string, unknown>>[]
  readonly terminationGracePeriodSeconds: number
}

interface Template {
  readonly metadata: Pick<Pod, 'labels'>
  readonly spec: PodSpec
}

export interface Pod {
  readonly component: string
  readonly labels: Readonly<Record<string, string>>
  readonly spec: PodSpec
  readonly containers: readonly Container[]
}

/** The pods of all deployments and jobs. */
export function podsOf(objects: readonly KubeObject[]): Pod[] {
  return objects.flatMap((object) => {
    const { template } = (object.spec ?? {}) as { template?: Template }
    if (template === undefined) return []
    const { metadata, spec } = template
    const component = metadata.labels['app.kubernetes.io/component'] ?? ''
    const containers = [...spec.containers, ...(spec.initContainers ?? [])]
    return [{ component, labels: metadata.labels, spec, containers }]
  })
}

/** True if functions run in bubblewrap there. */
export const isSandbox = ({ securityContext }: Container): boolean =>
  (securityContext['seccompProfile'] as { type?: string } | undefined)?.type === 'Localhost'

/** True if a selector finds an object with these labels. */
export const selects = (
  selector: Readonly<Record<string, string>>,
  labels: Readonly<Record<string, string>>,
) => Object.entries(selector).every(([name, value]) => labels[name] === value)

/** The variables of a container, with texts for those of a Secret. */
export const environmentOf = (
  { env }: Container,
  secretOf: (key: string) => string,
): Record<string, string> =>
  Object.fromEntries(
    env.map(({ name, value, valueFrom }) => [name, value ?? secretOf(valueFrom?.secretKeyRef?.key ?? '')]),
  )
