/** Values that are wrong or half there are refused by a message that names them. */

import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { render, type ValueSet } from './helm.ts'
import { environmentOf, isSandbox, podsOf } from './pods.ts'

/** Values on top of a set, and what the message has. */
const REFUSED: readonly (readonly [title: string, set: ValueSet, values: object, message: RegExp])[] = [
  ['unknown value', 'external', { replicas: 3 }, /additional properties 'replicas'/],
  ['unknown value of a component', 'external', { api: { replica: 3 } }, /'\/api'.*'replica'/],
  [
    'unknown setting',
    'external',
    { settings: { TENON_DRAIN_DEALY: 5 } },
    /'\/settings'.*'TENON_DRAIN_DEALY'/,
  ],
  [
    'setting of another form',
    'external',
    { settings: { TENON_RATE_TENANT: '100 a second' } },
    /'\/settings\/TENON_RATE_TENANT'/,
  ],
  [
    'number that the setting does not take',
    'external',
    { settings: { TENON_DRAIN_LIMIT: -1 } },
    /'\/settings\/TENON_DRAIN_LIMIT'/,
  ],
  [
    'secret among the settings',
    'external',
    { settings: { TENON_MASTER_KEY: 'A' } },
    /'\/settings'.*'TENON_MASTER_KEY'/,
  ],
  ...['TEMPORAL_DEPLOYMENT_NAME', 'TEMPORAL_WORKER_BUILD_ID'].map(
    (name) =>
      [
        `setting for two Deployments of workers, ${name}`,
        'external',
        { settings: { [name]: 'x' } },
        new RegExp(`'/settings'.*'${name}'`),
      ] as const,
  ),
  ['setting of the chart', 'external', { settings: { TENON_PORT: 1 } }, /'\/settings'.*'TENON_PORT'/],
  ['no URL', 'external', { settings: { TENON_PUBLIC_URL: null } }, /'\/settings\/TENON_PUBLIC_URL'/],
  ['no image', 'external', { image: { repository: '' } }, /'\/image\/repository'/],
  ['digest that is none', 'external', { image: { digest: 'sha256:1' } }, /'\/image\/digest'/],
  [
    'no Secret',
    'external',
    { secrets: { worker: { existingSecret: '' } } },
    /'\/secrets\/worker\/existingSecret'/,
  ],
  [
    'secret that API and worker do not share',
    'external',
    { secrets: { platform: { optionalKeys: ['DATABASE_BUILDER_URL'] } } },
    /'\/secrets\/platform\/optionalKeys\/0'/,
  ],
  [
    'keys without their Secret',
    'evaluation',
    { secrets: { api: { optionalKeys: ['GATEWAY_SECRET'] } } },
    /'\/secrets\/api\/existingSecret'/,
  ],
  [
    'KMS without a key',
    'external',
    { settings: { TENON_KEY_PROVIDER: 'kms' } },
    /'\/settings'.*'TENON_KMS_KEY_ID'/,
  ],
  [
    'KMS that the migration does not reach',
    'external',
    { settings: { TENON_KEY_PROVIDER: 'kms', TENON_KMS_KEY_ID: 'alias/tenon' } },
    /TENON_KEY_PROVIDER=kms needs networkPolicy\.services\.kms/,
  ],
  [
    'no memory',
    'external',
    { api: { resources: { limits: { memory: null } } } },
    /'\/api\/resources\/limits'.*'memory'/,
  ],
  ['ingress without a class', 'evaluation', { ingress: { enabled: true } }, /'\/ingress\/className'/],
  [
    'ingress that nothing lets in',
    'external',
    { networkPolicy: { apiFrom: [] } },
    /ingress\.enabled needs networkPolicy\.apiFrom/,
  ],
  [
    'monitor that nothing lets in',
    'external',
    { metrics: { podMonitor: { enabled: true } }, networkPolicy: { metricsFrom: [] } },
    /metrics\.podMonitor\.enabled needs networkPolicy\.metricsFrom/,
  ],
  [
    'fewest pods above most pods',
    'external',
    { worker: { autoscaling: { minReplicas: 9 } } },
    /worker\.autoscaling\.minReplicas \(9\) is larger than worker\.autoscaling\.maxReplicas \(6\)/,
  ],
  [
    'network policy without Valkey',
    'external',
    { networkPolicy: { services: { valkey: null } } },
    /'\/networkPolicy\/services\/valkey'/,
  ],
  [
    'service without ports',
    'external',
    { networkPolicy: { services: { mail: { to: [{ ipBlock: { cidr: '10.0.0.1/32' } }] } } } },
    /'\/networkPolicy\/services\/mail'.*'ports'/,
  ],
  [
    'service to anybody',
    'external',
    { networkPolicy: { services: { mail: { to: [{ podSelector: {} }], ports: [25] } } } },
    /'\/networkPolicy\/services\/mail\/to\/0\/podSelector'/,
  ],
  [
    'profile that leaves its folder',
    'external',
    { worker: { functionSandbox: { seccompProfile: '/etc/x' } } },
    /seccompProfile'/,
  ],
]

test.each(REFUSED)('values: %s: refused, by name', async (_title, set, values, message) => {
  const failure = await render(set, values).then(
    () => 'rendered',
    (error: Error) =>
      error.cause instanceof Error ? `${error.message}\n${error.cause.message}` : error.message,
  )
  expect(failure).toMatch(message)
})

const mailAt = (cidr: string) => ({
  networkPolicy: { services: { mail: { to: [{ ipBlock: { cidr } }], ports: [25] } } },
})

test.each([
  ...['169.254.169.254/32', '169.254.0.0/16', '169.254.169.0/24', '169.254.168.0/23', '100.100.100.200/32'],
  ...['100.100.0.0/16', '168.63.129.16/32', '192.0.0.0/24', '0.0.0.0/0', '128.0.0.0/1', '10.0.0.0/8'],
  ...[
    'fd00:ec2::254/128',
    'FD00:0EC2::/32',
    'fd20:ce::254/128',
    '::/0',
    'fc00::/7',
    'fe80::/64',
    '::ffff:a9fe:a9fe/128',
  ],
])('destination: block %s: refused, since it contains a metadata service or may do so', async (cidr) => {
  const failure = await render('evaluation', mailAt(cidr)).catch((error: Error) =>
    String(error.cause ?? error),
  )
  expect(failure).toContain('/networkPolicy/services/mail/to/0/ipBlock/cidr')
})

test.each([
  '10.0.0.0/16',
  '169.254.20.10/32',
  '100.64.3.0/24',
  '192.168.1.0/24',
  'fd12:3456::/64',
  '2a01:4f8::/48',
])('destination: block %s: accepted', async (cidr) => {
  expect(JSON.stringify(await render('evaluation', mailAt(cidr)))).toContain(cidr)
})

test('numbers and booleans: arrive as the process reads them', async () => {
  const settings = { TENON_OBJECT_BYTES_MAX: 5_497_558_138_880, S3_PATH_STYLE: false, TENON_DRAIN_DELAY: 0 }
  const [pod] = podsOf(await render('evaluation', { settings })).filter(
    ({ component }) => component === 'api',
  )
  const [container] = pod?.containers ?? []
  if (container === undefined) throw new Error('no API')
  expect(environmentOf(container, () => '')).toMatchObject({
    TENON_OBJECT_BYTES_MAX: '5497558138880',
    S3_PATH_STYLE: 'false',
    TENON_DRAIN_DELAY: '0',
  })
})

test('image: a digest stands for the tag', async () => {
  const digest = `sha256:${'0'.repeat(64)}`
  const images = podsOf(await render('external', { image: { digest } })).flatMap(({ containers }) =>
    containers.map(({ image }) => image),
  )
  expect(images).toEqual(Array(3).fill(`registry.example.com/tenon@${digest}`))
})

test('times of the drain: bound the time that a pod has to stop', async () => {
  const settings = { TENON_DRAIN_DELAY: 10, TENON_DRAIN_LIMIT: 600 }
  const pods = podsOf(await render('external', { settings }))
  const seconds = pods.map(({ component, spec }) => [component, spec.terminationGracePeriodSeconds])
  expect(Object.fromEntries(seconds)).toMatchObject({ api: 625, worker: 625 })
})

test('example of docs/kubernetes.md: makes the same objects as the external set without autoscaling and metrics, with the sandbox', async () => {
  const page = await readFile('docs/kubernetes.md', 'utf8')
  const [, text = ''] = /```yaml\n(.*?)\n```/s.exec(page) ?? []
  const off = {
    api: { autoscaling: { enabled: false } },
    worker: { autoscaling: { enabled: false } },
    networkPolicy: { metricsFrom: [] },
  }
  const [own, ofSet] = [await render(undefined, parse(text)), await render('external', off)]
  expect(own).toEqual(ofSet)
  // No value of either one asks for it.
  const sandboxed = podsOf(own).filter(({ containers }) => containers.some(isSandbox))
  expect(sandboxed.map(({ component }) => component)).toEqual(['worker'])
})
