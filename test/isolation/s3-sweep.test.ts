/** Sweeps every action of the S3 API with keys that must not run it, and with requests that were not signed as they were sent. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import { ACTIONS } from '../../src/api/s3/actions.ts'
import { createStorageKey, type StorageKey } from '../support/clients/s3.ts'
import { presign, type Signed, sign } from '../support/clients/s3-signer.ts'
import {
  addTestWorkspaceWithStorage,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'
import { bucketOf } from '../support/stack/workspace-settings.ts'

const ALL = ['read', 'write', 'list', 'admin'] as const
let workspace: TestWorkspace
let bucket: string
let keys: Record<'ours' | 'stranger' | 'sibling' | 'read' | 'write' | 'list' | 'below', StorageKey>

beforeAll(async () => {
  const [ours, other] = await Promise.all([
    createTestWorkspaceWithStorage(),
    createTestWorkspaceWithStorage(),
  ])
  const sibling = await addTestWorkspaceWithStorage(ours)
  workspace = ours
  bucket = await bucketOf(workspace)
  keys = {
    ours: await createStorageKey(workspace, { actions: ['admin'] }),
    stranger: await createStorageKey(other, { actions: ALL }),
    sibling: await createStorageKey(sibling, { actions: ALL }),
    read: await createStorageKey(workspace, { actions: ['read'] }),
    write: await createStorageKey(workspace, { actions: ['write'] }),
    list: await createStorageKey(workspace, { actions: ['list'] }),
    below: await createStorageKey(workspace, { actions: ALL, prefixes: ['in/'] }),
  }
  expect((await send(sign(request('PutObject', keys.ours)))).status).toBe(200)
})

const { host } = new URL(inject('tenon').url)
const BODIES: Readonly<Record<string, string>> = {
  PutObject: 'ours',
  UploadPart: 'part',
  DeleteObjects: '<Delete><Object><Key>out/k</Key></Object></Delete>',
  PutObjectTagging: '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>',
  CompleteMultipartUpload:
    '<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>',
}
const QUERIES: Readonly<Record<string, string>> = {
  'list-type': '2',
  partNumber: '1',
  uploadId: '00000000-0000-0000-0000-000000000000',
}

/** A request of an action for our object. */
function request(name: string, key: StorageKey) {
  const action = ACTIONS.find((one) => one.name === name)
  if (action === undefined) throw new Error(`no action ${name}`)
  const { method, on, selectors = [], header } = action
  const path = { service: '/s3', bucket: `/s3/${bucket}`, object: `/s3/${bucket}/out/k` }[on]
  return {
    ...{ method, host, path, key, payload: 'UNSIGNED-PAYLOAD' },
    query: Object.fromEntries(selectors.map((one) => [one, QUERIES[one] ?? ''])),
    headers: header === undefined ? {} : { [header]: `${bucket}/out/k` },
  }
}

async function send({ method, target, headers }: Signed, body = 'ours') {
  const { host: _, ...sent } = headers
  const hasBody = method === 'PUT' || method === 'POST'
  const response = await fetch(`http://${host}${target}`, { method, headers: sent, ...(hasBody && { body }) })
  const text = await response.text()
  return { status: response.status, code: /<Code>(\w+)/.exec(text)?.[1], text, headers: response.headers }
}

const ask = (name: string, key: StorageKey) => send(sign(request(name, key)), BODIES[name] ?? '')

/** Replies to HEAD have no body. */
const expectRefused = (
  name: string,
  { status, code }: Awaited<ReturnType<typeof send>>,
  codes = ['AccessDenied'],
) => expect([name, status, code === undefined || codes.includes(code)]).toEqual([name, 403, true])

const NAMES = ACTIONS.map(({ name }) => name)
const ON_BUCKETS = NAMES.filter((name) => name !== 'ListBuckets')

/** The action of a key that each action of S3 needs. */
const NEEDS: Readonly<Record<string, readonly ('read' | 'write' | 'list')[]>> = {
  ListBuckets: ['list'],
  ListObjectsV2: ['list'],
  ListObjects: ['list'],
  ListMultipartUploads: ['list'],
  HeadBucket: ['list'],
  GetBucketLocation: ['list'],
  GetBucketVersioning: ['list'],
  GetObject: ['read'],
  HeadObject: ['read'],
  GetObjectTagging: ['read'],
  GetObjectAttributes: ['read'],
  CopyObject: ['read', 'write'],
  UploadPartCopy: ['read', 'write'],
}

describe.each(ON_BUCKETS)('S3 action: %s', (name) => {
  test('of a key of another tenant, or of a sibling workspace: refused', async () => {
    for (const key of [keys.stranger, keys.sibling]) {
      const { status, code, text } = await ask(name, key)
      // An object of another bucket is asked for: what the store says, and nothing of ours.
      if (name === 'DeleteObjects') expect([status, code]).toEqual([403, 'AccessDenied'])
      else expectRefused(name, { status, code, text, headers: new Headers() })
      expect(text).not.toContain(workspace.workspaceId)
    }
  })

  test('of a key without the action, or below another prefix: refused', async () => {
    const needed = NEEDS[name] ?? ['write']
    for (const action of ['read', 'write', 'list'] as const) {
      if (needed.length === 1 && needed[0] === action) continue
      const reply = await ask(name, keys[action])
      if (name === 'DeleteObjects' && reply.status === 200)
        expect(reply.text).toContain('<Code>AccessDenied</Code>')
      else expectRefused(`${name} ${action}`, reply)
    }
    if (['HeadBucket', 'GetBucketLocation', 'GetBucketVersioning'].includes(name)) return
    const reply = await ask(name, keys.below)
    if (name === 'DeleteObjects') expect(reply.text).toContain('<Code>AccessDenied</Code>')
    else expectRefused(`${name} below`, reply)
  })

  test('without a signature, with a wrong one, an unknown key, or replayed on another method or key: refused', async () => {
    const good = request(name, keys.ours)
    const { authorization: _, ...unsigned } = sign(good).headers
    expectRefused(name, await send({ ...sign(good), headers: unsigned }))
    expectRefused(name, await ask(name, { ...keys.ours, secret: keys.read.secret }), [
      'SignatureDoesNotMatch',
    ])
    expectRefused(name, await ask(name, { ...keys.ours, id: 'key_00000000000000000000000000' }), [
      'InvalidAccessKeyId',
    ])
    const elsewhere = { ...sign(good), target: sign({ ...good, path: `${good.path}x` }).target }
    expectRefused(name, await send(elsewhere, BODIES[name]), ['SignatureDoesNotMatch'])
    const method = good.method === 'PUT' ? 'POST' : 'PUT'
    expectRefused(name, await send({ ...sign(good), method }, 'x'), ['SignatureDoesNotMatch'])
    const url = presign({ ...good, date: new Date(Date.now() - 120_000) })
    expectRefused(name, await send(url, BODIES[name]))
  })
})

test('S3 buckets: of a key of another tenant: are its own', async () => {
  const { status, text } = await ask('ListBuckets', keys.stranger)
  expect([status, text.includes(bucket)]).toEqual([200, false])
})

test('presigned URL: with another credential in the header, altered or cut: only its own signature counts', async () => {
  const { target } = presign({ ...request('GetObject', keys.ours) })
  const get = (url: string, headers: Record<string, string> = {}) =>
    send({ method: 'GET', target: url, headers })
  expect((await get(target)).text).toBe('ours')
  expect((await get(target, { authorization: 'Bearer x', apikey: 'x' })).text).toBe('ours')
  for (const bad of [
    target.slice(0, -1),
    `${target}0`,
    target.replace('Expires=60', 'Expires=600'),
    `${target}&response-content-type=text/html`,
  ])
    expectRefused(bad, await get(bad), ['SignatureDoesNotMatch'])
  expect(await get(target.replace('Expires=60', 'Expires=604801'))).toMatchObject({
    status: 400,
    code: 'AuthorizationQueryParametersError',
  })
})

test('storage key: its secret as an API key of REST: refused, with the reason', async () => {
  const { status, body } = await call('GET', `/v1/objects/${bucket}/out/k`, {
    as: { apikey: keys.ours.secret },
  })
  expect([status, body.code, body.detail]).toEqual([
    401,
    'api_key_invalid',
    expect.stringContaining('storage key'),
  ])
})

test('storage key: revoked, disabled, or of a suspended workspace: refused at once', async () => {
  const key = await createStorageKey(workspace)
  const path = `/v1/api-keys/${key.id}`
  const as = workspace.operator
  expect((await ask('GetObject', key)).status).toBe(200)
  await call('PATCH', path, { as, body: { status: 'disabled' } })
  expectRefused('disabled', await ask('GetObject', key), ['InvalidAccessKeyId'])
  await call('PATCH', path, { as, body: { status: 'active' } })
  const rotated = await call('POST', `${path}/rotate`, { as, body: { grace_seconds: 60 } })
  const next = { id: rotated.body.id, secret: rotated.body.key }
  for (const one of [key, next]) expect((await ask('GetObject', one)).status).toBe(200)
  expect(rotated.body).toMatchObject({ kind: 'storage', actions: ['list', 'read', 'write'], prefixes: null })
  await call('DELETE', path, { as })
  expectRefused('revoked', await ask('GetObject', key), ['InvalidAccessKeyId'])
  await call('POST', `/v1/workspaces/${workspace.workspaceId}/suspend`, { as, body: { reason: 'test' } })
  await eventually(async () => expectRefused('suspended', await ask('GetObject', next), ['AccountProblem']))
  await call('POST', `/v1/workspaces/${workspace.workspaceId}/resume`, { as })
  await eventually(async () => expect((await ask('GetObject', next)).status).toBe(200))
})

test.each([
  [{ kind: 'storage' }, 'actions'],
  [{ kind: 'storage', actions: [] }, 'actions'],
  [{ kind: 'storage', actions: ['*'] }, 'actions.0'],
  [{ kind: 'storage', actions: ['read'], prefixes: [] }, 'prefixes'],
  [{ kind: 'storage', actions: ['read'], prefixes: ['in/', '*'] }, 'prefixes'],
  [{ kind: 'storage', actions: ['read'], prefixes: [''] }, 'prefixes.0'],
  [{ kind: 'storage', actions: ['read'], scopes: ['objects:read'] }, 'scopes'],
  [{ kind: 'service', actions: ['read'] }, 'actions'],
])('storage key: %j: refused, naming the member', async (members, name) => {
  const body = { workspace_id: workspace.workspaceId, name: 'x', ...members }
  const reply = await call('POST', '/v1/api-keys', { as: workspace.operator, body })
  expect([reply.status, reply.body.errors?.[0]?.name]).toEqual([400, name])
})

test('storage key: of a workspace without a bucket: refused', async () => {
  const { workspaceId, operator } = await createTestWorkspace()
  const body = { workspace_id: workspaceId, kind: 'storage', name: 'x', actions: ['read'] }
  const reply = await call('POST', '/v1/api-keys', { as: operator, body })
  expect([reply.status, reply.body.code]).toEqual([409, 'bucket_required'])
})

test('S3 API: after all requests that were refused: the object is as it was', async () => {
  const { text } = await ask('GetObject', keys.ours)
  const tags = await ask('GetObjectTagging', keys.ours)
  expect([text, tags.text.includes('<Tag>')]).toEqual(['ours', false])
})
