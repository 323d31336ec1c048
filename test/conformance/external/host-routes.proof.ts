/** Checks with a real Caddy that it has exactly the routes of the host names of workspaces, whatever happens to it. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { UNDO } from '../../../src/features/tenants/provisioning.ts'
import { sendRaw } from '../../support/clients/raw-http.ts'
import { faultsOf } from '../../support/fixtures/provisioning-faults.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { type DnsServer, startDnsServer } from '../../support/servers/dns-server.ts'
import { whileBeforeStep } from '../../support/servers/table-barrier.ts'
import { type OwnPlatform, ownPlatform } from '../../support/stack/own-platform.ts'
import { type ProvisioningNode, startProvisioningNode } from '../../support/stack/provisioning-worker.ts'
import { waitingStep } from '../../support/stack/purge-node.ts'
import { type Caddy, FOREIGN, type Route, startCaddy } from './caddy.ts'

let caddy: Caddy
let dns: DnsServer
let node: ProvisioningNode
let ours: TestWorkspace
let other: TestWorkspace
beforeAll(async () => {
  ;[caddy, dns] = await Promise.all([startCaddy(), startDnsServer()])
  node = await startProvisioningNode({
    TENON_CADDY_ADMIN_URL: caddy.adminUrl,
    TENON_DNS_SERVERS: dns.address,
  })
  ;[ours, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
})
afterAll(async () => {
  await Promise.all([node?.close(), caddy?.close(), dns?.close()])
})

const ask = (method: string, path: string, body?: object): Promise<Reply> =>
  call(method, path, {
    ...{ as: ours.operator, at: node.at, headers: { prefer: 'wait=30' } },
    ...(body !== undefined && { body }),
  })
const hostsOf = ({ workspaceId }: TestWorkspace) => `/v1/workspaces/${workspaceId}/hosts`
const idOf = ({ tenantId, workspaceId }: TestWorkspace, host: string) =>
  `tenon:${tenantId}:${workspaceId}:${host}`
const ids = async () => (await caddy.routes()).map((route) => route['@id'])

async function claim(of: TestWorkspace): Promise<string> {
  const { body } = await ask('POST', hostsOf(of), { host: `${unique('shop')}.example` })
  dns.texts.set(body.record.name, [body.record.value])
  return body.host
}
const verify = (of: TestWorkspace, host: string) => ask('POST', `${hostsOf(of)}/${host}/verify`, {})

async function give(of: TestWorkspace): Promise<string> {
  const host = await claim(of)
  expect((await verify(of, host)).status).toBe(200)
  return host
}

/** Resources of the workspace that differ, by kind. */
async function drift({ tenantId, workspaceId }: TestWorkspace): Promise<Record<string, string>> {
  const { body } = await ask('GET', `/v1/tenants/${tenantId}/drift`)
  const { differences, unread } = body.data.find(({ target }: { target: string }) => target === workspaceId)
  expect(unread).toEqual([])
  return Object.fromEntries(differences.map((one: { name: string; kind: string }) => [one.name, one.kind]))
}

test('proved name: is routed before the routes of others, and no longer when it is deleted', async () => {
  const host = await give(ours)
  expect((await ids()).indexOf(idOf(ours, host))).toBeLessThan((await ids()).indexOf(FOREIGN['@id']))
  const { status } = await sendRaw(`${caddy.url}/v1/me`, { host, ...ours.service })
  expect(status).toBe(200)
  expect((await sendRaw(`${caddy.url}/v1/me`, { host, ...other.service })).status).toBe(401)
  expect((await ask('DELETE', `${hostsOf(ours)}/${host}`)).status).toBe(200)
  expect(await ids()).not.toContain(idOf(ours, host))
  expect(await caddy.routes()).toContainEqual(FOREIGN)
})

test('names proved at the same time by two workers: all are routed', async () => {
  const claims = await Promise.all(
    [ours, other, ours, other, ours, other].map(async (of) => [of, await claim(of)] as const),
  )
  const replies = await Promise.all(claims.map(([of, host]) => verify(of, host)))
  expect(replies.map(({ status }) => status)).toEqual(claims.map(() => 200))
  expect(await ids()).toEqual(expect.arrayContaining(claims.map(([of, host]) => idOf(of, host))))
  expect(await caddy.routes()).toContainEqual(FOREIGN)
})

test('routes changed by hand: are shown as a drift, and made again', async () => {
  const fresh = await addTestWorkspace(ours)
  const [kept, altered, missing] = [await give(fresh), await give(fresh), await give(fresh)]
  expect(await drift(fresh)).toEqual({})
  await caddy.change('PATCH', `/id/${idOf(fresh, altered)}/terminal`, false)
  await caddy.change('DELETE', `/id/${idOf(fresh, missing)}`)
  const stray = { '@id': idOf(fresh, 'stray.example'), handle: [] }
  await caddy.change('POST', '/config/apps/http/servers/srv0/routes', stray)
  const different = { [altered]: 'altered', [missing]: 'missing', 'stray.example': 'left_over' }
  expect(await drift(fresh)).toEqual(different)
  // A repair is the same as what a worker does at its next look.
  expect((await verify(fresh, kept)).status).toBe(200)
  expect(await drift(fresh)).toEqual({})
  expect(await caddy.routes()).toContainEqual(FOREIGN)
})

test('proof that is gone from DNS: is reported, and the name stays', async () => {
  const fresh = await addTestWorkspace(ours)
  const host = await give(fresh)
  dns.texts.delete(`_tenon.${host}`)
  expect(await drift(fresh)).toEqual({ [host]: 'missing' })
  expect((await sendRaw(`${node.at.url}/v1/me`, { host, ...other.service })).status).toBe(401)
})

test('Caddy away: a name waits with 503, is repeated, and a creation waits until Caddy is back', async () => {
  const host = await claim(ours)
  await caddy.stop()
  const refused = await verify(ours, host)
  expect([refused.status, refused.body.code]).toEqual([503, 'dependency_unavailable'])
  const made = await call('POST', '/v1/workspaces', {
    ...{ as: ours.operator, at: node.at },
    body: { tenant_id: ours.tenantId, name: 'W', slug: unique('w'), bucket: null },
  })
  const job = () => ask('GET', `/v1/operations/${made.body.id}`)
  const waiting = await eventually(async () => {
    const [step] = (await job()).body.steps
    return step?.state === 'waiting' ? step : undefined
  })
  expect(waiting).toMatchObject({ name: 'host_routes', detail: 'Caddy does not answer.' })
  await caddy.start()
  await eventually(async () => ((await job()).body.state === 'succeeded' ? true : undefined), 90_000)
  expect((await verify(ours, host)).status).toBe(200)
  expect(await ids()).toContain(idOf(ours, host))
  await caddy.stop()
  const remove = () => ask('DELETE', `${hostsOf(ours)}/${host}`)
  expect((await remove()).status).toBe(503)
  await caddy.start()
  expect((await remove()).status).toBe(404)
  expect(await ids()).not.toContain(idOf(ours, host))
})

describe('creation of a workspace, step host_routes', () => {
  test.each(faultsOf(UNDO.host_routes))('$name: $state', async ({ fault, state, undoing }) => {
    const host = `${unique('early')}.example`
    node.wrap((run) =>
      fault(
        async (context, input, step) => {
          // A workspace that is created has no names yet: this one has something to undo.
          const { tenantId, workspaceId } = input.target
          await asSuperuser(
            `insert into tenon.hosts (tenant_id, workspace_id, host, proof, verified_at) values ($1, $2, $3, 'x', now()) on conflict do nothing`,
            [tenantId, workspaceId, host],
          )
          return run(context, input, step)
        },
        'host_routes',
        UNDO.host_routes ?? '',
      ),
    )
    const before = await ids()
    const body = { tenant_id: ours.tenantId, name: 'W', slug: unique('saga'), bucket: null }
    const made = await ask('POST', '/v1/workspaces', body)
    expect(made.body.state).toBe(state)
    const own = `tenon:${ours.tenantId}:${made.body.id}:${host}`
    const isThere = state === 'active' || undoing === 'fails'
    expect((await ids()).filter((id) => !before.includes(id))).toEqual(isThere ? [own] : [])
    expect(await caddy.routes()).toContainEqual(FOREIGN)
    node.wrap((run) => run)
  })
})

describe('platform whose worker knows Caddy', () => {
  let platform: OwnPlatform
  beforeAll(async () => {
    const env = { TENON_CADDY_ADMIN_URL: caddy.adminUrl, TENON_DNS_SERVERS: dns.address }
    platform = await ownPlatform({ env })
  })
  afterAll(() => platform?.end())

  const giveAt = async (of: TestWorkspace): Promise<string> => {
    const [as, at] = [of.operator, platform.started.running]
    const { body } = await call('POST', hostsOf(of), { as, at, body: { host: `${unique('shop')}.example` } })
    dns.texts.set(body.record.name, [body.record.value])
    const path = `${hostsOf(of)}/${body.host}/verify`
    expect((await call('POST', path, { as, at, body: {} })).status).toBe(200)
    return body.host
  }

  test('route removed by hand: is made again at the next look', async () => {
    const { workspace, started } = platform
    const host = await giveAt(workspace)
    await caddy.change('DELETE', `/id/${idOf(workspace, host)}`)
    await asSuperuser(
      'update tenon.workspaces set drift_due_at = now() where id = $1',
      [workspace.workspaceId],
      started.running,
    )
    await eventually(async () => ((await ids()).includes(idOf(workspace, host)) ? true : undefined))
  })

  test('purge of one of two tenants: its routes are gone, and those of the other stay', async () => {
    const { started, workspace: kept } = platform
    const at = started.running
    const doomed = await createTestWorkspace(at)
    await Promise.all([giveAt(doomed), giveAt(kept)])
    const isOfDoomed = (route: Route) => String(route['@id']).includes(doomed.tenantId)
    const others = (await caddy.routes()).filter((route) => !isOfDoomed(route))
    const path = `/v1/tenants/${doomed.tenantId}?grace_days=0`
    const removal = await call('DELETE', path, { as: doomed.operator, at })
    const job = () => call('GET', `/v1/operations/${removal.body.id}`, { as: doomed.operator, at })
    const { result } = await eventually(async () => {
      const { body } = await job()
      return body.state === 'succeeded' ? body : undefined
    }, 60_000)
    expect([result.before.host_routes, result.after]).toEqual([1, {}])
    expect(await caddy.routes()).toEqual(others)
  })
  test('Caddy away when a purge begins, and in its middle: waits and says why both times, and leaves no route of its own', async () => {
    const { started, workspace: kept } = platform
    const at = started.running
    const as = kept.operator
    const doomed = await addTestWorkspace(kept, at)
    await Promise.all([giveAt(doomed), giveAt(kept)])
    const others = (await caddy.routes()).filter(
      (route) => !String(route['@id']).includes(doomed.workspaceId),
    )
    const path = `/v1/workspaces/${doomed.workspaceId}?grace_days=0`
    await caddy.stop()
    const { body: removal } = await call('DELETE', path, { as, at })
    const job = async () => (await call('GET', `/v1/operations/${removal.id}`, { as, at })).body
    expect((await waitingStep(removal.id, 'begin_purge', at)).detail).toBe('Caddy does not answer.')
    await whileBeforeStep(platform, { id: removal.id, step: 'remove_objects' }, caddy.start, caddy.stop)
    expect((await waitingStep(removal.id, 'remove_resources', at)).detail).toBe('Caddy does not answer.')
    await caddy.start()
    const { result } = await eventually(async () => {
      const now = await job()
      return now.state === 'succeeded' ? now : undefined
    }, 120_000)
    expect([result.before.host_routes, result.after]).toEqual([1, {}])
    expect(await caddy.routes()).toEqual(others)
  })
})
