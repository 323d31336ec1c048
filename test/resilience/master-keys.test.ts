/** The master key is replaced while API, worker and executions run: all that was made before stays usable, at each process and each step. */

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { rotateMasterKey } from '../../src/app/master-keys/rotate.ts'
import { DERIVED, deriveSecret } from '../../src/infra/crypto/secrets.ts'
import { Database } from '../../src/infra/postgres/database.ts'
import {
  call,
  createTestWorkspaceWithStorage,
  eventually,
  operator,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { FakeServers } from '../support/servers/fake-servers.ts'
import { type Node, startInProcessNode } from '../support/stack/in-process-node.ts'
import { type OwnPlatform, ownPlatform } from '../support/stack/own-platform.ts'
import type { Running } from '../support/stack/start.ts'
import { runCheckNamed } from '../support/stack/start-outcome.ts'
import { startWorker } from '../support/stack/worker-process.ts'

const newKey = () => randomBytes(32).toString('base64')
const [OLD, NEW] = [newKey(), newKey()]

let own: OwnPlatform
let workspace: TestWorkspace
let bucket: string
let fakeServer: FakeServers
const nodes: Node[] = []

beforeAll(async () => {
  // The platform knows both keys, and the new one is not yet first.
  const options = { masterKey: OLD, env: { TENON_MASTER_KEY: `${OLD},${NEW}` } }
  own = await ownPlatform(options, createTestWorkspaceWithStorage)
  workspace = own.workspace
  fakeServer = await FakeServers.open()
  const body = { workspace_id: workspace.workspaceId, egress: { allow: [fakeServer.host] } }
  await done('POST', '/v1/services/configure', own.started.running, { as: workspace.operator, body })
  const shown = { as: workspace.operator }
  const path = `/v1/workspaces/${workspace.workspaceId}`
  bucket = (await done('GET', path, own.started.running, shown)).body.bucket
})
afterAll(async () => {
  for (const node of nodes) await node.close()
  await fakeServer?.close()
  await own?.end()
})

/** Another API process with these keys. */
async function nodeWith(masterKeys: string): Promise<Running> {
  const node = await startInProcessNode({ TENON_MASTER_KEY: masterKeys }, own.started.running)
  nodes.push(node)
  return node.at
}

/** A call that succeeds. */
async function done(method: string, path: string, at: Running, options: Parameters<typeof call>[2] = {}) {
  const { status, body, headers } = await call(method, path, { as: workspace.service, ...options, at })
  expect(status, `${method} ${path}: ${JSON.stringify(body)}`).toBeLessThan(300)
  return { status, body, headers }
}

const DOCUMENTS = '/v1/collections/notes/documents'

/** What depends on a master key: made at one process, and used at another. */
const THINGS: Readonly<Record<string, (at: Running) => Promise<(at: Running) => Promise<void>>>> = {
  'reply of an idempotent request': async (made) => {
    const key = { 'idempotency-key': unique('k') }
    const first = await done('POST', DOCUMENTS, made, { headers: key, body: { n: 1 } })
    return async (at) => {
      const again = await done('POST', DOCUMENTS, at, { headers: key, body: { n: 1 } })
      expect(again.body.id).toBe(first.body.id)
      const other = await call('POST', DOCUMENTS, { as: workspace.service, at, headers: key, body: { n: 2 } })
      expect(other.body.code).toBe('idempotency_key_reused')
    }
  },
  'cursor of a page': async (made) => {
    for (const n of [1, 2]) await done('POST', DOCUMENTS, made, { body: { n } })
    const { body } = await done('GET', `${DOCUMENTS}?page[size]=1`, made)
    return async (at) => {
      const next = await done('GET', `${DOCUMENTS}?page[size]=1&page[after]=${body.page.next}`, at)
      expect(next.body.data).toHaveLength(1)
    }
  },
  'link to an object': async (made) => {
    const key = unique('o')
    await done('PUT', `/v1/objects/${bucket}/${key}`, made, {
      body: 'text',
      headers: { 'content-type': 'text/plain' },
    })
    const { body } = await done('POST', `/v1/buckets/${bucket}/presign`, made, {
      body: { key, expires_in: 3_600 },
    })
    return async (at) => {
      const { pathname, search } = new URL(body.url)
      expect((await done('GET', pathname + search, at, { as: {} })).body).toBe('text')
    }
  },
  'secret of an execution that waits': async (made) => {
    const name = unique('s')
    const value = unique('value')
    const as = workspace.operator
    await done('PUT', `${workspace.flows}/secrets/${name}`, made, { as, body: { value } })
    const source = `
document: { dsl: '1.0.3', namespace: test, name: ${unique('f')}, version: '1.0.0' }
use: { secrets: [${name}] }
do:
  - begun: { set: { told: '\${ $secrets["${name}"] }' } }
  - heard: { listen: { to: { one: { with: { type: go } } } } }
  - tell: { call: http, with: { method: post, endpoint: { uri: '${fakeServer.origin}/echo' }, body: '\${ $secrets["${name}"] }' } }
`
    const flow = await done('POST', `${workspace.flows}/definitions`, made, { as, body: { source } })
    const path = `${workspace.flows}/definitions/${flow.body.id}`
    await done('POST', `${path}/versions`, made, { as })
    const { body } = await done('POST', `${path}/executions`, made, { as, body: { input: {} } })
    const stateAt = async (at: Running) =>
      (await done('GET', `${workspace.flows}/executions/${body.id}`, at, { as })).body.status
    await eventually(async () => ((await stateAt(made)) === 'waiting' ? true : undefined))
    return async (at) => {
      if ((await stateAt(at)) === 'completed') return
      const event = { body: { event: { type: 'go' } } }
      await done('POST', `${workspace.flows}/executions/${body.id}/signal`, at, { as, ...event })
      await eventually(async () => ((await stateAt(at)) === 'completed' ? true : undefined))
      expect(fakeServer.requests.filter((request) => request.body.includes(value))).toHaveLength(1)
    }
  },
}

/** Does not depend on a master key that is gone. Links and cursors do, and whether a request is the same. */
const LASTING = ['secret of an execution that waits']

/** Makes each thing at each process. @returns what checks all of them at a process, or some */
async function makeAll(at: readonly Running[]) {
  const checks: (readonly [name: string, check: (at: Running) => Promise<void>])[] = []
  for (const made of at)
    for (const [name, make] of Object.entries(THINGS)) checks.push([name, await make(made)])
  return async (used: Running, names: readonly string[] = Object.keys(THINGS)) => {
    for (const [name, check] of checks) if (names.includes(name)) await check(used)
  }
}

const rotate = async () => {
  const database = Database.open(own.started.running.databaseUrl, () => {}, 2)
  try {
    return await rotateMasterKey({ database, masterKeys: `${NEW},${OLD}` })
  } finally {
    await database.close()
  }
}

test('master key replaced in a rolling restart: what was made under either key is usable everywhere, and at the end under the new key alone', async () => {
  const { running, stack } = own.started
  const newFirst = await nodeWith(`${NEW},${OLD}`)
  // Both orders serve at once.
  const kept = await makeAll([running, newFirst])
  const used = await makeAll([running, newFirst])
  for (const at of [running, newFirst]) await used(at)
  for (const at of [running, newFirst])
    for (const key of [OLD, NEW])
      await operator({ ...at, clientSecret: deriveSecret(key, DERIVED.operatorSecret) })

  // A process with the old key first goes on to write.
  const writing = new AbortController()
  const writer = (async () => {
    while (!writing.signal.aborted) {
      const headers = { 'idempotency-key': unique('w') }
      await done('POST', DOCUMENTS, running, { headers, body: { n: 0 } })
    }
  })()
  const first = await rotate()
  expect(first).toMatchObject({ failed: [] })
  expect(first.resealed).toBeGreaterThan(0)
  writing.abort()
  await writer
  await used(running)
  await used(newFirst)

  // The last old-first processes end; now nothing of the old key is left but what expires.
  const worker = await startWorker({ ...running, env: { ...running.env, TENON_MASTER_KEY: `${NEW},${OLD}` } })
  await stack.supervisor.end('worker')
  await stack.supervisor.end('api')
  const second = await rotate()
  expect(second).toMatchObject({ complete: true, failed: [] })
  expect(second.keys.filter(({ role, values }) => role !== 'first' && values > 0)).toEqual([])

  const lastWorker = await startWorker({ ...running, env: { ...running.env, TENON_MASTER_KEY: NEW } })
  worker.kill('SIGKILL')
  const newAlone = await nodeWith(NEW)
  try {
    await kept(newAlone, LASTING)
    await kept(newFirst)
    await (await makeAll([newAlone]))(newFirst)
    expect(await runCheckNamed('master_key', { ...running.env, TENON_MASTER_KEY: OLD })).toMatchObject({
      is: 'wrong',
    })
    expect(await runCheckNamed('master_key', { ...running.env, TENON_MASTER_KEY: NEW })).toMatchObject({
      is: 'good',
    })
    expect(
      await runCheckNamed('master_key', { ...running.env, TENON_MASTER_KEY: `${OLD},${NEW}` }),
    ).toMatchObject({
      is: 'warning',
      detail: expect.stringMatching(
        /^This process encrypts with the key \w{16}, which \w{16} has replaced: put/,
      ),
    })
  } finally {
    lastWorker.kill('SIGKILL')
  }
})
