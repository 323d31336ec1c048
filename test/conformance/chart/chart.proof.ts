/** `npm run test:chart`: renderings of the chart are valid for Kubernetes, restricted, and have the settings that the processes read. */

import { readFile } from 'node:fs/promises'
import { beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { isProbe } from '../../../src/app/probes.ts'
import { NO_VALUES, SECRETS } from '../../../src/cli/stack/chart-reference.ts'
import { parseConfig, SETTINGS } from '../../../src/infra/config.ts'
import { ApiSchemas, KUBERNETES } from './api-schemas.ts'
import { CHART, type KubeObject, lint, VALUE_SETS } from './helm.ts'
import { type Container, environmentOf, isSandbox, type Pod, type Probe, podsOf, selects } from './pods.ts'
import { booleanPaths, type Rendering, renderAll } from './renderings.ts'

let renderings: readonly Rendering[] = []

beforeAll(async () => {
  renderings = await renderAll()
})

/** Runs a check on each rendering. @returns its findings with the title of the rendering */
const findings = (check: (objects: readonly KubeObject[]) => readonly string[]) =>
  renderings.flatMap(({ title, objects }) => check(objects).map((finding) => `${title}: ${finding}`))

const ofPods = (check: (pod: Pod) => readonly string[]) =>
  findings((objects) => podsOf(objects).flatMap((pod) => check(pod).map((one) => `${pod.component}: ${one}`)))

const ofContainers = (check: (container: Container, pod: Pod) => readonly string[]) =>
  ofPods((pod) => pod.containers.flatMap((container) => check(container, pod)))

/** The names of what is false. */
const broken = (rules: Readonly<Record<string, boolean>>) =>
  Object.entries(rules).flatMap(([name, holds]) => (holds ? [] : [name]))

const MIGRATION = ['DATABASE_URL', 'TENON_APP_PASSWORD', 'TENON_BUILDER_PASSWORD']
const SECRET_NAMES: readonly string[] = [...NO_VALUES['keys of an existing Secret'], ...MIGRATION]

test.each(VALUE_SETS)('chart: values-%s.yaml: has no fault by `helm lint --strict`', async (set) => {
  expect(await lint(set)).toContain('0 chart(s) failed')
})

test('renderings: are of both sets and of each boolean of the schema', async () => {
  const paths = await booleanPaths()
  expect(paths.size).toBeGreaterThan(8)
  expect(renderings.length).toBe(VALUE_SETS.length * (paths.size + 2))
  const kinds = new Set(renderings.flatMap(({ objects }) => objects.map(({ kind }) => kind)))
  expect([...kinds].sort()).toEqual([
    ...['Deployment', 'HorizontalPodAutoscaler', 'Ingress', 'Job', 'NetworkPolicy'],
    ...['PodDisruptionBudget', 'PodMonitor', 'Service', 'ServiceAccount'],
  ])
  expect(findings((objects) => podsOf(objects).map(({ component }) => component)).length).toBe(
    renderings.length * 3,
  )
})

test.each(KUBERNETES)('renderings: every object is valid for the API of Kubernetes %s', async (version) => {
  const schemas = await ApiSchemas.load(version)
  const isOwn = ({ kind }: KubeObject) => kind !== 'PodMonitor'
  expect(findings((objects) => objects.filter(isOwn).flatMap((object) => schemas.faultsOf(object)))).toEqual(
    [],
  )
})

test('renderings: objects of one kind have different names', () => {
  const doubled = findings((objects) => {
    const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`)
    return names.filter((name, at) => names.indexOf(name) !== at)
  })
  expect(doubled).toEqual([])
})

describe('pods', () => {
  test('are restricted, and get no token and no links of services', () => {
    const loose = ofPods(({ spec }) => {
      const { seccompProfile, runAsNonRoot, runAsUser } = spec.securityContext
      return broken({
        'automountServiceAccountToken: false': Object.entries(spec).some(
          ([name, value]) => name === 'automountServiceAccountToken' && value === false,
        ),
        'enableServiceLinks: false': 'enableServiceLinks' in spec && spec.enableServiceLinks === false,
        'no namespace of the host': !Object.keys(spec).some((name) => /^host(Network|PID|IPC)$/.test(name)),
        'a user that is not root': runAsNonRoot === true && Number(runAsUser) > 0,
        'a seccomp profile': (seccompProfile as { type?: string }).type === 'RuntimeDefault',
        'no volumes but an empty one and certificates': spec.volumes.every(
          ({ name, ...kind }) => 'emptyDir' in kind || (name === 'certificates' && 'secret' in kind),
        ),
      })
    })
    expect(loose).toEqual([])
  })

  test('containers are restricted and have resources', () => {
    const loose = ofContainers((container) => {
      const { securityContext: context, resources } = container
      const { capabilities, seccompProfile, procMount, appArmorProfile } = context
      return broken({
        'allowPrivilegeEscalation: false': context['allowPrivilegeEscalation'] === false,
        'readOnlyRootFilesystem: true': context['readOnlyRootFilesystem'] === true,
        'not privileged': !('privileged' in context) && !('runAsUser' in context),
        'no capabilities': JSON.stringify(capabilities) === '{"drop":["ALL"]}',
        'the profiles of the pod, but for the sandbox':
          isSandbox(container) || (seccompProfile === undefined && appArmorProfile === undefined),
        'the /proc of the runtime': procMount === undefined,
        requests: ['cpu', 'memory'].every((name) => resources.requests[name] !== undefined),
        'limit of memory': resources.limits['memory'] !== undefined,
      })
    })
    expect(loose).toEqual([])
  })

  test('sandbox of functions: is in the worker of the external set, and of no other pod', () => {
    const sandboxed = renderings.flatMap(({ title, objects }) =>
      podsOf(objects).flatMap(({ component, containers }) =>
        containers.some(isSandbox) ? [`${title} ${component}`] : [],
      ),
    )
    expect(sandboxed).toContain('external worker')
    expect(sandboxed).not.toContain('evaluation worker')
    expect(sandboxed.filter((one) => !one.endsWith(' worker'))).toEqual([])
  })

  test('stop: have more time than the drain of their process', () => {
    const short = ofContainers(({ env }, { component, spec }) => {
      const seconds = (name: string) => Number(env.find((one) => one.name === name)?.value)
      const needed = seconds('TENON_DRAIN_DELAY') + seconds('TENON_DRAIN_LIMIT')
      return component === 'migrate' || spec.terminationGracePeriodSeconds > needed
        ? []
        : [`${spec.terminationGracePeriodSeconds} s for ${needed} s`]
    })
    expect(short).toEqual([])
  })

  test('probes: are those that the process serves, at the port where it serves them', () => {
    const wrong = ofContainers(({ env, ports = [], ...container }, { component }) => {
      if (component === 'migrate') return []
      const value = (name: string) => env.find((one) => one.name === name)?.value ?? ''
      const served = [value('TENON_PORT'), value('TENON_OPS_LISTEN').split(':').at(-1)].map(Number)
      const isServed = (probe: Probe | undefined, path: string) =>
        probe?.httpGet.path === path &&
        isProbe(path) &&
        served.includes(ports.find(({ name }) => name === probe.httpGet.port)?.containerPort ?? 0)
      const { startupProbe: startup, livenessProbe: liveness, readinessProbe: readiness } = container
      const unreadyS = (readiness?.periodSeconds ?? 0) * (readiness?.failureThreshold ?? 0)
      return broken({
        startup: isServed(startup, '/startupz'),
        liveness: isServed(liveness, '/healthz'),
        readiness: isServed(readiness, '/readyz'),
        'unready before the process closes': unreadyS > 0 && unreadyS < Number(value('TENON_DRAIN_DELAY')),
      })
    })
    expect(wrong).toEqual([])
  })

  test('commands: are those of docker-compose.yml and the Dockerfile', async () => {
    const { services } = parse(await readFile('docker-compose.yml', 'utf8'), { merge: true })
    const [, ofImage = ''] = /^CMD (.*)$/m.exec(await readFile('Dockerfile', 'utf8')) ?? []
    const expected = (component: string) => services[component].command ?? JSON.parse(ofImage)
    // A `command` would replace the init of the image.
    const others = ofContainers(({ command, args }, { component }) =>
      command === undefined && JSON.stringify(args) === JSON.stringify(expected(component))
        ? []
        : [args.join(' ')],
    )
    expect(others).toEqual([])
  })
})

describe('environment', () => {
  /** A text that the setting accepts. */
  const secretOf = (key: string): string => {
    if (key === 'TENON_MASTER_KEY') return `${'A'.repeat(43)}=`
    if (key.startsWith('DATABASE_')) return 'postgres://user:word@host/tenon'
    if (key === 'REDIS_URL') return 'redis://host'
    return 'x'.repeat(32)
  }

  test('names: are settings of the process, each of them once', () => {
    const wrong = ofContainers(({ env, envFrom }, { component }) => {
      const names = env.map(({ name }) => name)
      const known = component === 'migrate' ? [...Object.keys(SETTINGS), ...MIGRATION] : Object.keys(SETTINGS)
      return [
        ...names.filter((name, at) => !known.includes(name) || names.indexOf(name) !== at),
        ...(envFrom === undefined ? [] : ['envFrom']),
      ]
    })
    expect(wrong).toEqual([])
  })

  test('migration: reads its own variables', async () => {
    const source = await readFile('src/cli/stack/migrate.ts', 'utf8')
    expect(MIGRATION.filter((name) => !source.includes(name))).toEqual([])
  })

  test('API and worker: read it without a fault', () => {
    const wrong = ofContainers((container, { component }) => {
      if (component === 'migrate') return []
      try {
        parseConfig(environmentOf(container, secretOf))
        return []
      } catch (error) {
        return [String(error)]
      }
    })
    expect(wrong).toEqual([])
  })

  test('secrets: are keys of existing Secrets; no object has the value of one', () => {
    const inline = ofContainers(({ env }) =>
      env.flatMap(({ name, value, valueFrom }) =>
        SECRET_NAMES.includes(name) === (valueFrom !== undefined) &&
        (value === undefined) !== (valueFrom === undefined)
          ? []
          : [name],
      ),
    )
    expect(inline).toEqual([])
    expect(
      findings((objects) => (/:\/\/[^/\s"]*:[^/\s"]*@/.test(JSON.stringify(objects)) ? ['URL'] : [])),
    ).toEqual([])
    expect(
      findings((objects) => objects.filter(({ kind }) => kind === 'Secret').map(() => 'Secret')),
    ).toEqual([])
  })

  test('secrets: each process gets those that it needs, and no other', () => {
    const shared = SECRETS.platform
    const allowed: Readonly<Record<string, readonly string[]>> = {
      api: [...shared, 'TENON_OPERATOR_SECRET'],
      worker: [...shared, 'DATABASE_BUILDER_URL'],
      migrate: ['TENON_MASTER_KEY', ...MIGRATION],
    }
    const wrong = ofContainers(({ env }, { component }) => {
      const got = env.flatMap(({ name, valueFrom }) => (valueFrom === undefined ? [] : [name]))
      const needed = (allowed[component] ?? []).filter((name) => name !== 'TENON_OPERATOR_SECRET')
      return [
        ...got.filter((name) => !allowed[component]?.includes(name)).map((name) => `gets ${name}`),
        ...needed.filter((name) => !got.includes(name)).map((name) => `lacks ${name}`),
      ]
    })
    expect(wrong).toEqual([])
  })
})

describe('objects around the pods', () => {
  test('selectors: of each one find the pods of one component', () => {
    const wrong = findings((objects) => {
      const pods = podsOf(objects)
      return objects.flatMap(({ kind, metadata, spec }) => {
        const { selector, podSelector } = (spec ?? {}) as Readonly<Record<string, Record<string, object>>>
        const labels = (podSelector ?? selector)?.['matchLabels'] ?? selector
        if (labels === undefined || kind === 'PodMonitor') return []
        const found = pods.filter((pod) => selects(labels as never, pod.labels))
        const expected = metadata.labels['app.kubernetes.io/component']
        return found.length === 1 && found[0]?.component === expected ? [] : [`${kind} ${metadata.name}`]
      })
    })
    expect(wrong).toEqual([])
  })

  test('autoscaling and budgets: are those of the values, and no replicas stand beside autoscaling', () => {
    const wrong = findings((objects) => {
      const scaled = objects.filter(({ kind }) => kind === 'HorizontalPodAutoscaler')
      const targets = scaled.map(
        ({ spec }) => (spec as { scaleTargetRef: { name: string } }).scaleTargetRef.name,
      )
      return objects
        .filter(({ kind }) => kind === 'Deployment')
        .filter(({ metadata, spec }) => targets.includes(metadata.name) === 'replicas' in (spec as object))
        .map(({ metadata }) => metadata.name)
    })
    expect(wrong).toEqual([])
    const budgets = (title: string) =>
      renderings
        .find((one) => one.title === title)
        ?.objects.filter(({ kind }) => kind === 'PodDisruptionBudget')
    expect(budgets('external')?.length).toBe(2)
    expect(budgets('evaluation')?.length).toBe(0)
  })

  test('migration: runs before everything else, with what it needs, and leaves nothing', () => {
    const wrong = findings((objects) => {
      const hooks = objects.filter(({ metadata }) => metadata.annotations?.['helm.sh/hook'] !== undefined)
      const weight = ({ metadata }: KubeObject) => Number(metadata.annotations?.['helm.sh/hook-weight'])
      const job = hooks.find(({ kind }) => kind === 'Job')
      return broken({
        'hooks are of the migration': hooks.every(({ metadata }) => metadata.name === 'tenon-migrate'),
        'the job is a hook, and last': hooks.every(
          (one) => one === job || (job && weight(one) < weight(job)),
        ),
        'before install and upgrade': hooks.every(
          ({ metadata }) => metadata.annotations?.['helm.sh/hook'] === 'pre-install,pre-upgrade',
        ),
        'deleted afterwards': hooks.every(({ metadata }) =>
          /hook-succeeded/.test(metadata.annotations?.['helm.sh/hook-delete-policy'] ?? ''),
        ),
        'its service account is a hook': hooks.some(({ kind }) => kind === 'ServiceAccount'),
      })
    })
    expect(wrong).toEqual([])
  })

  test('monitor: scrapes API and worker at the port of the metrics, as the jobs of the alert rules', async () => {
    const monitors = renderings.flatMap(({ objects }) => objects.filter(({ kind }) => kind === 'PodMonitor'))
    expect(monitors.length).toBeGreaterThan(0)
    for (const { spec } of monitors)
      expect(spec).toEqual({
        selector: {
          matchLabels: { 'app.kubernetes.io/name': 'tenon', 'app.kubernetes.io/instance': 'tenon' },
          matchExpressions: [
            { key: 'app.kubernetes.io/component', operator: 'In', values: ['api', 'worker'] },
          ],
        },
        podMetricsEndpoints: [
          {
            port: 'ops',
            path: '/metrics',
            relabelings: [
              {
                sourceLabels: ['__meta_kubernetes_pod_label_app_kubernetes_io_component'],
                targetLabel: 'job',
                replacement: 'tenon-$1',
              },
            ],
          },
        ],
      })
    expect(await readFile('deploy/prometheus/alerts.yml', 'utf8')).toContain('job=~"tenon-.*"')
  })

  test('chart: has no dependencies', async () => {
    expect(parse(await readFile(`${CHART}/Chart.yaml`, 'utf8'))).not.toHaveProperty('dependencies')
  })
})
