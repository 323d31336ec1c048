// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Payloads of all sizes, and keys of tenants: rotation, destruction, isolation. */

import { randomBytes } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import { GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3'
import { defaultPayloadConverter, type Payload } from '@temporalio/common'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { Platform } from '../../../src/app/platform.ts'
import { PAYLOAD_BUCKET } from '../../../src/core/object-key.ts'
import { PAYLOAD_MARK, REJECTED } from '../../../src/core/work.ts'
import { clientOf, rootClient } from '../../support/clients/object-store.ts'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import {
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  provisionTestWorkspace,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform } from '../../support/stack/in-process-platform.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

const KIB = 1_024
/** Random text that barely compresses. */
const textOf = (bytes: number) =>
  randomBytes(Math.ceil((bytes * 3) / 4))
    .toString('base64')
    .slice(0, bytes)

describe('payload size', () => {
  let server: Server
  let answer = ''
  let workspace: TestWorkspace
  beforeAll(async () => {
    workspace = await provisionTestWorkspace()
    const port = inject('tenon').echoPorts[2] ?? 0
    server = createServer((_request, response) =>
      response.setHeader('content-type', 'application/json').end(JSON.stringify(answer)),
    )
    await new Promise<void>((done) => server.listen(port, '127.0.0.1', done))
    const tasks = `  - got: { call: http, with: { method: get, endpoint: 'http://127.0.0.1:${port}/' } }
  - heard: { listen: { to: { one: { with: { type: told } } } } }
  - all: { set: { x: '\${ $workflow.input.x }' } }`
    const source = `document: { dsl: '1.0.3', namespace: n, name: sizes, version: '1.0.0' }\ndo:\n${tasks}`
    const made = await call('POST', `${workspace.flows}/definitions`, {
      as: workspace.operator,
      body: { source },
    })
    expect(made.body.diagnostics).toEqual([])
    await call('POST', `${workspace.flows}/definitions/sizes/versions`, { as: workspace.operator, body: {} })
  })
  afterAll(() => new Promise((done) => server.close(done)))

  const start = (x: string) =>
    call('POST', `${workspace.flows}/definitions/sizes/executions`, {
      as: workspace.operator,
      body: { input: { x } },
    })
  const until = (id: string, status: string) =>
    eventually(async () => {
      const { body } = await call('GET', `${workspace.flows}/executions/${id}`, { as: workspace.operator })
      return body.status === status ? body : undefined
    })
  const signal = (id: string, x: string) => {
    const event = { type: 'told', data: { x } }
    return call('POST', `${workspace.flows}/executions/${id}/signal`, {
      as: workspace.operator,
      body: { event },
    })
  }

  test.each([
    ['255 KiB', 255 * KIB],
    ['257 KiB', 257 * KIB],
    ['2.1 MB', 2_100_000],
  ])('%s as input, call result, event and output: carried, history stays small', async (_name, bytes) => {
    const x = textOf(bytes)
    answer = textOf(bytes)
    const { body: run } = await start(x)
    await until(run.id, 'waiting')
    expect((await signal(run.id, textOf(bytes))).status).toBe(202)
    const done = await until(run.id, 'completed')
    expect(done.output.x === x).toBe(true)
    const size = await withRawClient(async (client) => {
      const described = await client.workflow.getHandle(run.workflow_id).describe()
      return Number(described.historySize)
    })
    expect(size).toBeLessThan(64 * KIB)
  })

  test('5 MB: 413 for an input or event, a fault for a call result', async () => {
    const large = textOf(5_000_000)
    const refused = await start(large)
    expect([refused.status, refused.body.code]).toEqual([413, 'body_too_large'])
    answer = large
    const { body: run } = await start('x')
    const signalled = await signal(run.id, large)
    expect([signalled.status, signalled.body.code]).toEqual([413, 'body_too_large'])
    const failed = await until(run.id, 'faulted')
    expect(failed.error.detail).toMatch(/large|bytes/)
  })
})

describe('payload key', () => {
  /** Runs `work` with a platform whose caches are empty, as after a start. */
  async function withFreshCodec<T>(work: (codec: Codec) => Promise<T>): Promise<T> {
    const platform = openInProcessPlatform()
    try {
      return await work(platform.codec)
    } finally {
      await platform.close()
    }
  }
  type Codec = Platform['codec']
  const contextOf = ({ tenantId, workspaceId }: TestWorkspace) => ({
    type: 'workflow' as const,
    namespace: 'default',
    workflowId: `${tenantId}:${workspaceId}:flow_x:1`,
  })
  const payload = (value: unknown) => defaultPayloadConverter.toPayload(value)
  const decoded = ([one]: Payload[]) => one && defaultPayloadConverter.fromPayload(one)
  const keyOf = ([one]: Payload[]) => String(one?.metadata?.['encryption-key-id'] ?? '')
  const encodingOf = ({ metadata }: Payload) => String(metadata?.['encoding'])
  const refusal = { code: 'payload_unreadable' }

  test('older than its maximum age: concurrent encoders create one new key, old payloads stay readable', async () => {
    const workspace = await provisionTestWorkspace()
    const of = contextOf(workspace)
    await withFreshCodec(async (codec) => {
      const first = await codec.encode([payload('first')], of)
      expect(keyOf(first)).toBe(`${workspace.tenantId}.1`)
      await asSuperuser(
        "update tenon.payload_keys set created_at = now() - interval '91 days' where tenant_id = $1",
        [workspace.tenantId],
      )
      const made = await Promise.all(
        [1, 2, 3].map(() => withFreshCodec((other) => other.encode([payload('second')], of))),
      )
      expect(made.map(keyOf)).toEqual(Array(3).fill(`${workspace.tenantId}.2`))
      for (const second of made) expect(decoded(await codec.decode(second))).toBe('second')
      expect(decoded(await withFreshCodec((other) => other.decode(first)))).toBe('first')
    })
  })

  test('destroyed: payloads unreadable, no new key is created, other tenants unaffected', async () => {
    const [deleted, here] = await Promise.all([provisionTestWorkspace(), provisionTestWorkspace()])
    const large = textOf(300 * KIB)
    const lost = await withFreshCodec((codec) =>
      codec.encode([payload('x'), payload(large)], contextOf(deleted)),
    )
    const encoded = await withFreshCodec((codec) => codec.encode([payload(large)], contextOf(here)))
    await asSuperuser(
      'update tenon.payload_keys set sealed = null, destroyed_at = now() where tenant_id = $1',
      [deleted.tenantId],
    )
    await withFreshCodec(async (codec) => {
      for (const one of lost) await expect(codec.decode([one])).rejects.toMatchObject(refusal)
      await expect(codec.encode([payload('y')], contextOf(deleted))).rejects.toMatchObject(refusal)
      expect(decoded(await codec.decode(encoded)) === large).toBe(true)
      const { metadata, data } = payload({ message: 'secret', stack_trace: 'secret' })
      const failure = {
        metadata: { ...metadata, [PAYLOAD_MARK]: Buffer.from('failure') },
        data: data ?? null,
      }
      const [withheld] = await codec.encode([failure], contextOf(deleted))
      expect(decoded([withheld as Payload])).toEqual({
        message: 'The payload was withheld, because it could not be encrypted.',
        stack_trace: '',
      })
    })
    const reply = await call('POST', '/v1/codec/decode', { as: here.operator, body: wire(encoded) })
    expect(JSON.parse(atob(reply.body.payloads[0].data)) === large).toBe(true)
  })

  test("no context: not encoded; other tenant's or modified payload: not decoded", async () => {
    const [mine, other] = await Promise.all([provisionTestWorkspace(), provisionTestWorkspace()])
    await withFreshCodec(async (codec) => {
      await expect(async () => codec.encode([payload('x')])).rejects.toThrow(TypeError)
      const made = await codec.encode([payload('x')], contextOf(mine))
      expect((await codec.decode(made, contextOf(other))).map(encodingOf)).toEqual([REJECTED])
      const [{ metadata, data } = {}] = made
      const changed = Buffer.from(data ?? [])
      changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1
      await expect(codec.decode([{ metadata: metadata ?? {}, data: changed }])).rejects.toMatchObject(refusal)
      await codec.encode([payload('y')], contextOf(other))
      const renamed = { ...metadata, 'encryption-key-id': Buffer.from(`${other.tenantId}.1`) }
      await expect(codec.decode([{ metadata: renamed, data: data ?? null }])).rejects.toMatchObject(refusal)
      expect(await codec.decode([payload('never encoded')])).toEqual([payload('never encoded')])
    })
  })

  test('same large content encoded twice: stored once per tenant', async () => {
    const [mine, other] = await Promise.all([provisionTestWorkspace(), provisionTestWorkspace()])
    const large = payload(textOf(300 * KIB))
    const encode = (workspace: TestWorkspace) =>
      withFreshCodec((codec) => codec.encode([large], contextOf(workspace)))
    await Promise.all([mine, mine, other].map(encode))
    const counts = await Promise.all(
      [mine, other].map(async ({ tenantId }) => {
        const list = new ListObjectsV2Command({ Bucket: PAYLOAD_BUCKET, Prefix: `${tenantId}/` })
        return (await rootClient().send(list)).KeyCount
      }),
    )
    expect(counts).toEqual([1, 1])
  })

  test('database: keys readable by one role, for its own tenant', async () => {
    const [mine, other] = await Promise.all([provisionTestWorkspace(), provisionTestWorkspace()])
    const all = 'select tenant_id from tenon.payload_keys'
    expect(await sqlAsRole('tenon_payload_keys', [mine.tenantId, ''], all)).toEqual([
      { tenant_id: mine.tenantId },
    ])
    for (const mask of ['tenon_anon', 'tenon_service', 'tenon_admin', 'tenon_operator', 'tenon_issuer'])
      await expect(sqlAsRole(mask, [other.tenantId, ''], all)).rejects.toThrow(/permission denied/)
    await expect(
      sqlAsRole('tenon_payload_keys', [mine.tenantId, ''], 'delete from tenon.payload_keys'),
    ).rejects.toThrow(/permission denied/)
  })
})

test("bucket of the platform: refused as a workspace's bucket, unreachable with a workspace's key", async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const body = { tenant_id: workspace.tenantId, name: 'X', slug: unique('w'), bucket: PAYLOAD_BUCKET }
  const duplicate = await call('POST', '/v1/workspaces', { as: workspace.operator, body })
  expect([duplicate.status, duplicate.body.code]).toEqual([409, 'conflict'])
  const refused = await call('GET', `/v1/objects/${PAYLOAD_BUCKET}/x`, { as: workspace.service })
  expect([refused.status, refused.body.code]).toEqual([403, 'AccessDenied'])
  const s3 = await clientOf(workspace)
  const denied = { name: 'AccessDenied' }
  await expect(s3.send(new ListObjectsV2Command({ Bucket: PAYLOAD_BUCKET }))).rejects.toMatchObject(denied)
  const get = new GetObjectCommand({ Bucket: PAYLOAD_BUCKET, Key: `${workspace.tenantId}/1/x` })
  await expect(s3.send(get)).rejects.toMatchObject(denied)
})

describe('codec server', () => {
  let [mine, other]: TestWorkspace[] = []
  beforeAll(async () => {
    ;[mine, other] = await Promise.all([provisionTestWorkspace(), provisionTestWorkspace()])
  })
  const plain = { metadata: { encoding: btoa('json/plain') }, data: btoa('"words"') }
  const encodedFor = async (workspace: TestWorkspace) => {
    const body = { payloads: [plain], tenant_id: workspace.tenantId }
    const made = await call('POST', '/v1/codec/encode', { as: workspace.operator, body })
    expect([made.status, made.body.payloads[0].data === plain.data]).toEqual([200, false])
    return made.body.payloads[0]
  }

  test('decode: operator reads all, tenant admin its own tenant, other callers nothing', async () => {
    if (mine === undefined || other === undefined) throw new Error('no rooms')
    const body = { payloads: [await encodedFor(mine), await encodedFor(other), plain] }
    const decode = async (as: Record<string, string>) => call('POST', '/v1/codec/decode', { as, body })
    expect((await decode(mine.operator)).body.payloads).toEqual([plain, plain, plain])
    const admin = await tokenOf({ roles: ['tenant_admin', 'payload_reader'], tenant_id: mine.tenantId })
    expect((await decode(admin)).body.payloads).toEqual([plain, body.payloads[1], plain])
    const below = {
      roles: ['workspace_admin', 'payload_reader'],
      tenant_id: mine.tenantId,
      workspace_id: mine.workspaceId,
    }
    // These payloads are of no workflow, so of no workspace.
    expect((await decode(await tokenOf(below))).body.payloads).toEqual(body.payloads)
    for (const as of [mine.service, mine.anon]) expect((await decode(as)).status).toBe(403)
    expect((await decode({})).status).toBe(401)
  })

  test("preflight: allowed from the Temporal UI's origin, refused from others", async () => {
    const ui = new URL(inject('tenon').env['TEMPORAL_UI_URL'] ?? '').origin
    const preflight = (origin: string) =>
      fetch(`${inject('tenon').url}/v1/codec/decode`, {
        method: 'OPTIONS',
        headers: { origin, 'access-control-request-method': 'POST' },
      })
    const [admitted, not] = await Promise.all([preflight(ui), preflight('https://elsewhere.test')])
    expect([admitted.status, admitted.headers.get('access-control-allow-origin')]).toEqual([204, ui])
    expect(admitted.headers.get('access-control-allow-headers')).toContain('authorization')
    expect([not.status, not.headers.get('access-control-allow-origin')]).toEqual([405, null])
  })
})

/** Payloads as the Temporal UI sends them. */
function wire(payloads: Payload[]) {
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
  return {
    payloads: payloads.map(({ metadata, data }) => ({
      metadata: Object.fromEntries(
        Object.entries(metadata ?? {}).map(([name, value]) => [name, base64(value)]),
      ),
      data: base64(data ?? new Uint8Array()),
    })),
  }
}
