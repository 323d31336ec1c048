/** Network policies of the chart: closed for each pod, open to the named services, and to no metadata service. */

import { BlockList, isIPv6 } from 'node:net'
import { beforeAll, expect, test } from 'vitest'
import { type KubeObject, render } from './helm.ts'
import { podsOf, selects } from './pods.ts'
import { type Rendering, renderAll } from './renderings.ts'

interface Peer {
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] }
  readonly podSelector?: object
  readonly namespaceSelector?: object
}

interface Rule {
  readonly from?: readonly Peer[]
  readonly to?: readonly Peer[]
  readonly ports?: readonly { readonly port: number | string; readonly protocol: string }[]
}

interface Policy {
  readonly podSelector: { readonly matchLabels: Readonly<Record<string, string>> }
  readonly policyTypes: readonly string[]
  readonly ingress?: readonly Rule[] | null
  readonly egress?: readonly Rule[]
}

/** Metadata services of clouds, and addresses that are in no public network. */
const FORBIDDEN = [
  ...['169.254.169.254', '169.254.170.2', '100.100.100.200', '192.0.0.192', '168.63.129.16'],
  ...['fd00:ec2::254', 'fd20:ce::254', 'fe80::a9fe:a9fe', '::ffff:169.254.169.254', '64:ff9b::a9fe:a9fe'],
  ...['127.0.0.1', '::1', '0.0.0.0', '172.20.0.1', '192.168.1.1', '224.0.0.1', '255.255.255.255'],
]

let renderings: readonly Rendering[] = []
beforeAll(async () => {
  renderings = await renderAll()
})

const isClosed = ({ title }: Rendering) => !title.endsWith('networkPolicy.enabled: false')

const policiesOf = (objects: readonly KubeObject[]): Policy[] =>
  objects.flatMap(({ kind, spec }) => (kind === 'NetworkPolicy' ? [spec as Policy] : []))

const peersOf = ({ from, to }: Rule): readonly Peer[] => [...(from ?? []), ...(to ?? [])]

function contains({ ipBlock }: Peer, address: string): boolean {
  if (ipBlock === undefined) return false
  const isIn = (block: string) => {
    const [network = '', bits] = block.split('/')
    const list = new BlockList()
    list.addSubnet(network, Number(bits), isIPv6(network) ? 'ipv6' : 'ipv4')
    return list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
  }
  return isIn(ipBlock.cidr) && !(ipBlock.except ?? []).some(isIn)
}

test('policies: each pod has exactly one, in both directions', () => {
  const open = renderings.filter(isClosed).flatMap(({ title, objects }) =>
    podsOf(objects).flatMap(({ component, labels }) => {
      const own = policiesOf(objects).filter(({ podSelector }) => selects(podSelector.matchLabels, labels))
      const isBoth = own.length === 1 && own[0]?.policyTypes.join() === 'Ingress,Egress'
      return isBoth ? [] : [`${title}: ${component}`]
    }),
  )
  expect(open).toEqual([])
})

test('policies: are there unless the values say no', () => {
  const counts = renderings.map((one) => [isClosed(one), policiesOf(one.objects).length])
  expect(counts.filter(([closed, count]) => count !== (closed ? 3 : 0))).toEqual([])
})

test('rules: each names peers and ports', () => {
  const open = renderings.flatMap(({ title, objects }) =>
    policiesOf(objects).flatMap(({ ingress, egress }) =>
      [...(ingress ?? []), ...(egress ?? [])]
        .filter(
          (rule) => peersOf(rule).length === 0 || !rule.ports?.length || peersOf(rule).some(isEverybody),
        )
        .map(() => title),
    ),
  )
  expect(open).toEqual([])
})

/** A peer without a selector, or with an empty one, is every pod. */
const isEverybody = (peer: Peer) =>
  Object.keys(peer).length === 0 ||
  [peer.podSelector, peer.namespaceSelector].some((one) => one !== undefined && JSON.stringify(one) === '{}')

test('egress: reaches no metadata service, and no private address that is not named', () => {
  const found = renderings.flatMap(({ title, objects }) =>
    policiesOf(objects).flatMap(({ egress = [] }) =>
      FORBIDDEN.filter((address) => egress.flatMap(peersOf).some((peer) => contains(peer, address))).map(
        (address) => `${title}: ${address}`,
      ),
    ),
  )
  expect(found).toEqual([])
})

/** The ports that pods of a component reach at an address. */
function reached(objects: readonly KubeObject[], component: string, address: string) {
  const isOwn = ({ podSelector }: Policy) => selects(podSelector.matchLabels, labelsOf(objects, component))
  return policiesOf(objects)
    .filter(isOwn)
    .flatMap(({ egress = [] }) => egress)
    .filter((rule) => peersOf(rule).some((peer) => contains(peer, address)))
    .flatMap((rule) => (rule.ports ?? []).map(({ port }) => port))
}

const labelsOf = (objects: readonly KubeObject[], component: string) =>
  podsOf(objects).find((pod) => pod.component === component)?.labels ?? {}

const SERVERS = ['10.20.0.9', '10.20.1.9', '10.20.2.9', '10.20.3.9']
const OTHERS = ['10.20.4.9', '1.1.1.1', '2606:4700::1']

test('egress: reaches DNS, the named services and public addresses; of the migration PostgreSQL and Temporal alone', () => {
  const { objects = [] } = renderings.find(({ title }) => title === 'external') ?? {}
  const of = (component: string) => [...SERVERS, ...OTHERS].map((one) => reached(objects, component, one))
  for (const component of ['api', 'worker'])
    expect(of(component)).toEqual([[5432], [7233], [443], [6379], [], [80, 443], [80, 443]])
  expect(of('migrate')).toEqual([[5432], [7233], [], [], [], [], []])
  for (const { egress = [] } of policiesOf(objects))
    expect(egress[0]?.ports?.map(({ protocol, port }) => `${protocol} ${port}`)).toEqual(['UDP 53', 'TCP 53'])
})

test('egress: of the migration: reaches KMS if the master key is wrapped by it', async () => {
  const services = { kms: { to: [{ ipBlock: { cidr: '10.20.4.0/24' } }], ports: [443] } }
  const kms = { TENON_KEY_PROVIDER: 'kms', TENON_KMS_KEY_ID: 'alias/tenon' }
  const of = async (settings: object) => {
    const objects = await render('external', { settings, networkPolicy: { services } })
    return [...SERVERS, ...OTHERS].map((address) => reached(objects, 'migrate', address))
  }
  expect(await of(kms)).toEqual([[5432], [7233], [], [], [443], [], []])
  expect(await of({})).toEqual([[5432], [7233], [], [], [], [], []])
})

test('ingress: is open at the named ports for the named peers alone; of the migration at none', () => {
  const { objects = [] } = renderings.find(({ title }) => title === 'external') ?? {}
  const open = objects
    .filter(({ kind }) => kind === 'NetworkPolicy')
    .map(({ metadata, spec }) => {
      const rules = (spec as Policy).ingress ?? []
      return [metadata.name, rules.map(({ ports = [] }) => ports.map(({ port }) => port).join())]
    })
  expect(Object.fromEntries(open)).toEqual({
    'tenon-api': ['http', 'ops'],
    'tenon-worker': ['ops'],
    'tenon-migrate': [],
  })
  const closed = renderings.find(({ title }) => title === 'evaluation')?.objects ?? []
  expect(policiesOf(closed).map(({ ingress }) => ingress ?? [])).toEqual([[], [], []])
})
