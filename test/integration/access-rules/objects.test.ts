/** Rules on objects for users, on every operation and for any spelling of a key. */

import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import { limit, quota } from '../../support/fixtures/quotas.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type Reply,
  type TestWorkspace,
  tokenOf,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { bucketOf, configure, tryConfigure } from '../../support/stack/workspace-settings.ts'

const RULES = {
  read: ['avatars/', 'private/{user.id}/', 'teams/{user.claims.teams}/', 'mail/{user.email}/'],
  write: ['avatars/{user.id}/', 'private/{user.id}/'],
  delete: ['private/{user.id}/'],
}
const KEYS = ['avatars/ben/a.png', 'private/mia/a', 'private/ben/b', 'teams/red/c', 'teams/blue/d', 'e']

let workspace: TestWorkspace
let path: string
let mia: Caller
let ben: Caller
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  path = `/v1/objects/${await bucketOf(workspace)}`
  mia = await userToken(workspace, 'mia', { teams: ['red', 'green'] })
  ben = await userToken(workspace, 'ben')
  for (const key of KEYS) expect((await put(workspace.service, key, key)).status).toBe(201)
  await configure(workspace, { objects: { user: RULES } })
})

const send = (method: string, as: Caller, key: string) => call(method, `${path}/${key}`, { as })
const put = (as: Caller, key: string, body: string, headers: Record<string, string> = {}) =>
  call('PUT', `${path}/${key}`, { as, body, headers: { 'content-type': 'text/plain', ...headers } })
const list = (as: Caller, query = '') => call('GET', `${path}${query}`, { as })
const keysIn = ({ body }: Reply) => body.data.map(({ key }: { key: string }) => key)

/** Expects a refusal that names the setting, and not what an admin does. */
function expectClosed({ status, body }: Reply, setting: string): void {
  expect([status, body.code], JSON.stringify(body)).toEqual([403, 'forbidden'])
  expect(body.detail).toContain(`objects.user.${setting}`)
  expect(body.hint).not.toContain('/v1/services/configure')
}

describe('settings', () => {
  test('new workspace – has no rule, and is closed to users', async () => {
    const ws = await createTestWorkspaceWithStorage()
    const { body } = await call('GET', `/v1/services?workspace_id=${ws.workspaceId}`, { as: ws.operator })
    expect(body).toMatchObject({
      objects: { public_read: [], user: { read: [], write: [], delete: [] } },
      topics: { user: { subscribe: [], publish: [] } },
    })
    const [as, bucket] = [await userToken(ws, 'mia'), `/v1/objects/${await bucketOf(ws)}`]
    for (const [method, url] of [
      ['GET', bucket],
      ['GET', `${bucket}?prefix=avatars/`],
      ['GET', `${bucket}/avatars/a`],
      ['HEAD', `${bucket}/avatars/a`],
      ['PUT', `${bucket}/avatars/a`],
      ['DELETE', `${bucket}/avatars/a`],
    ] as const) {
      const reply = await call(method, url, { as, ...(method === 'PUT' && { body: 'x' }) })
      expect([method, url, reply.status]).toEqual([method, url, 403])
    }
    const ref = [ws.tenantId, ws.workspaceId]
    const find = 'select name from tenon.buckets'
    expect(await sqlAsRole('tenon_user', ref, find)).toEqual([])
    await configure(ws, { objects: { user: { read: ['avatars/'] } } })
    expect(await sqlAsRole('tenon_user', ref, find)).toHaveLength(1)
    await configure(ws, { objects: { user: { read: [] } } })
    expect(await sqlAsRole('tenon_user', ref, find)).toEqual([])
  })

  test('one right set – the others keep their rules, and so does objects.public_read', async () => {
    const ws = await createTestWorkspaceWithStorage()
    await configure(ws, { objects: { public_read: ['public/'] } })
    await configure(ws, { objects: { user: { read: ['a/'], write: ['b/'] } } })
    const { objects } = await configure(ws, { objects: { user: { write: [] } } })
    expect(objects).toMatchObject({ public_read: ['public/'], user: { read: ['a/'], write: [], delete: [] } })
  })

  test('rules that are malformed – are refused with a pointer to each, and nothing changes', async () => {
    const read = ['ok/', 'avatars', 'a/{user.mail}/']
    const { status, body } = await tryConfigure(workspace, { objects: { user: { read } } })
    expect([status, body.code]).toEqual([400, 'validation_failed'])
    expect(body.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
      '/objects/user/read/1',
      '/objects/user/read/2',
    ])
    expect(body.errors[1].detail).toContain('Did you mean {user.email}?')
    const { body: now } = await call('GET', `/v1/services?workspace_id=${workspace.workspaceId}`, {
      as: workspace.operator,
    })
    expect(now.objects.user).toEqual(RULES)
    const many = Array.from({ length: 101 }, (_, n) => `${n}/`)
    expect((await tryConfigure(workspace, { objects: { user: { read: many } } })).status).toBe(400)
  })

  test('changed by a user – is refused; the database role reads only the rules', async () => {
    const body = { workspace_id: workspace.workspaceId, objects: { user: { read: [''] } } }
    expect((await call('POST', '/v1/services/configure', { as: mia, body })).status).toBe(403)
    const ref = [workspace.tenantId, workspace.workspaceId]
    for (const column of ['egress_allow', 'experimental', 'cors_origins', 'retention'])
      await expect(sqlAsRole('tenon_user', ref, `select ${column} from tenon.services`)).rejects.toThrow(
        /permission denied/,
      )
    await expect(
      sqlAsRole('tenon_user', ref, `update tenon.services set user_objects = '{}'`),
    ).rejects.toThrow(/permission denied/)
  })
})

describe('read', () => {
  test('prefix without a variable – is open to each user', async () => {
    for (const as of [mia, ben]) {
      expect((await send('GET', as, 'avatars/ben/a.png')).body).toBe('avatars/ben/a.png')
      expect((await send('HEAD', as, 'avatars/ben/a.png')).status).toBe(200)
    }
    expect((await send('GET', mia, 'avatars/absent')).body.code).toBe('NoSuchKey')
  })

  test('prefix with the id – is open to that user alone', async () => {
    expect((await send('GET', mia, 'private/mia/a')).body).toBe('private/mia/a')
    expectClosed(await send('GET', ben, 'private/mia/a'), 'read')
    // The refusal is the same whether or not the object exists.
    const refusals = await Promise.all(['a', 'absent'].map((name) => send('GET', ben, `private/mia/${name}`)))
    const [first, second] = refusals.map(({ body }) => ({ ...body, request_id: '', instance: '' }))
    expect({ ...second, detail: second.detail.replace('absent', 'a') }).toEqual(first)
    expect((await send('HEAD', ben, 'private/mia/a')).status).toBe(403)
    for (const key of ['e', 'teams/blue/d', 'private/ben/b'])
      expectClosed(await send('GET', mia, key), 'read')
  })

  test('prefix with a claim – is open for each text of its list', async () => {
    expect((await send('GET', mia, 'teams/red/c')).status).toBe(200)
    expectClosed(await send('GET', ben, 'teams/red/c'), 'read')
    const blue = await userToken(workspace, 'zoe', { teams: 'blue' })
    expect((await send('GET', blue, 'teams/blue/d')).status).toBe(200)
    expectClosed(await send('GET', blue, 'teams/red/c'), 'read')
  })

  test('prefix with the address – is open only if the address is verified', async () => {
    const { service } = workspace
    expect((await put(service, 'mail/mia@example.com/m', 'm')).status).toBe(201)
    expect((await send('GET', mia, 'mail/mia@example.com/m')).status).toBe(200)
    const unverified = await tokenOf({
      ...{ tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId, role: 'user' },
      ...{ roles: ['user'], sub: 'eve', email: 'mia@example.com', email_verified: false, claims: {} },
    })
    expectClosed(await send('GET', unverified, 'mail/mia@example.com/m'), 'read')
  })

  test('list – needs a prefix at or below an open one', async () => {
    expect(keysIn(await list(mia, '?prefix=private/mia/'))).toEqual(['private/mia/a'])
    expect(keysIn(await list(mia, '?prefix=avatars/be'))).toEqual(['avatars/ben/a.png'])
    for (const query of [
      '',
      '?prefix=',
      '?prefix=p',
      '?prefix=private/',
      '?prefix=private/mia',
      '?prefix=private/ben/',
    ])
      expectClosed(await list(mia, query), 'read')
  })

  test('cursor of another list – stays below the prefix', async () => {
    const all = await call('GET', `${path}?page[size]=1`, { as: workspace.service })
    const next = await list(mia, `?prefix=private/mia/&page[after]=${all.body.page.next}`)
    for (const key of next.body.data === undefined ? [] : keysIn(next)) expect(key).toMatch(/^private\/mia\//)
  })

  test('rule removed – closes at once', async () => {
    const { read, ...others } = RULES
    await configure(workspace, { objects: { user: { read: [] } } })
    expectClosed(await send('GET', mia, 'private/mia/a'), 'read')
    await configure(workspace, { objects: { user: { read, ...others } } })
    expect((await send('GET', mia, 'private/mia/a')).status).toBe(200)
  })
})

describe('write and delete', () => {
  test('below own prefixes – are allowed with conditions, and nowhere else', async () => {
    const made = await put(mia, 'private/mia/new', 'one', { 'if-none-match': '*' })
    expect([made.status, made.body.key]).toEqual([201, 'private/mia/new'])
    expect((await put(mia, 'private/mia/new', 'two', { 'if-none-match': '*' })).status).toBe(412)
    expect((await put(mia, 'private/mia/new', 'two')).status).toBe(200)
    for (const key of ['private/ben/b', 'private/b', 'avatars/ben/a.png', 'avatars/new', 'teams/red/c', 'e'])
      expectClosed(await put(mia, key, 'stolen'), 'write')
    for (const key of ['private/ben/b', 'avatars/mia/a', 'e'])
      expectClosed(await send('DELETE', mia, key), 'delete')
    expect((await send('DELETE', mia, 'private/mia/new')).status).toBe(200)
    expect((await send('DELETE', mia, 'private/mia/new')).body.code).toBe('NoSuchKey')
    for (const key of KEYS) expect((await send('GET', workspace.service, key)).body).toBe(key)
  })

  test('right to write without one to delete – does not delete', async () => {
    expect((await put(ben, 'avatars/ben/b.png', 'b')).status).toBe(201)
    expectClosed(await send('DELETE', ben, 'avatars/ben/b.png'), 'delete')
  })

  test('anon key – writes and deletes nothing, whatever users may do', async () => {
    expect((await put(workspace.anon, 'private/mia/a', 'x')).status).toBe(403)
    expect((await send('DELETE', workspace.anon, 'private/mia/a')).status).toBe(403)
    expect((await send('GET', workspace.anon, 'avatars/ben/a.png')).status).toBe(403)
  })

  test('token with scopes – needs that of the operation as well', async () => {
    const narrow = await tokenOf({
      ...{
        tenant_id: workspace.tenantId,
        workspace_id: workspace.workspaceId,
        role: 'user',
        roles: ['user'],
      },
      ...{ sub: 'mia', email: 'mia@example.com', email_verified: true, claims: {}, scope: 'objects:read' },
    })
    expect((await send('GET', narrow, 'private/mia/a')).status).toBe(200)
    expect((await put(narrow, 'private/mia/a', 'x')).body.code).toBe('insufficient_scope')
  })
})

/** Sends the path unchanged; `fetch` would resolve its dots. */
async function sendUnnormalised(method: string, url: string, headers: Caller) {
  const { hostname, port } = new URL(inject('tenon').url)
  const outgoing = request({ hostname, port, path: url, method, headers: { ...headers }, agent: false })
  const [response] = (await once(outgoing.end(method === 'PUT' ? 'stolen' : undefined), 'response')) as [
    IncomingMessage,
  ]
  return { status: response.statusCode ?? 0, text: await text(response) }
}

const SPELLINGS = [
  'private/mia/../ben/b',
  'private/mia/%2e%2e/ben/b',
  'private/mia/.%2e/ben/b',
  'private/mia/..%2fben/b',
  'private/mia%2f..%2fben/b',
  'private/mia/..%5cben/b',
  'private/mia\\..\\ben/b',
  'private/mia//../ben/b',
  'private/mia/./../ben/b',
  'private/mia%00/../ben/b',
  'private//mia/../ben/b',
  'private/./ben/b',
  'private/%6dia/../ben/b',
  'private%2fben%2fb',
  'Private/mia/b',
  'private/Mia/b',
  'private/mi%C3%A4/b',
  // Full-width and Cyrillic letters that look like those of the prefix.
  'private/%EF%BD%8Dia/b',
  'private/mi%D0%B0/b',
  'private%E2%81%84mia/b',
  'private/mia%20/b',
  'private/%20mia/b',
  'private/mia%09/b',
]

test.each(SPELLINGS)('key %s – by mia – reaches no object outside of her prefix', async (key) => {
  const before = keysIn(await list(workspace.service, '?page[size]=200'))
  for (const method of ['GET', 'HEAD', 'PUT', 'DELETE']) {
    const reply = await sendUnnormalised(method, `${path}/${key}`, mia)
    expect([400, 403, 404], `${method} ${key}: ${reply.status} ${reply.text}`).toContain(reply.status)
    expect(reply.text).not.toBe('private/ben/b')
  }
  expect(keysIn(await list(workspace.service, '?page[size]=200'))).toEqual(before)
  expect((await send('GET', workspace.service, 'private/ben/b')).body).toBe('private/ben/b')
})

test('key that is encoded twice – is an object of its own below the prefix', async () => {
  const key = 'private/mia/%2e%2e/ben/b'
  const url = `${path}/private/mia/%252e%252e/ben/b`
  const made = JSON.parse((await sendUnnormalised('PUT', url, mia)).text)
  expect([made.key, made.created]).toEqual([key, true])
  expect(keysIn(await list(mia, '?prefix=private/mia/'))).toContain(key)
  expect((await send('GET', workspace.service, 'private/ben/b')).body).toBe('private/ben/b')
  expect((await sendUnnormalised('DELETE', url, mia)).status).toBe(200)
})

test.each(['a/../b', '..', '.', '', 'mia/', 'a\\b', '/'])('claim %j – opens nothing', async (team) => {
  const as = await userToken(workspace, 'nobody', { teams: [team, [team], { team }] })
  for (const prefix of ['teams/', `teams/${team}/`, 'teams//', 'teams/../'])
    expect((await list(as, `?prefix=${encodeURIComponent(prefix)}`)).status).toBe(403)
})

test('same name in another workspace – reaches no bucket but its own', async () => {
  const other = await createTestWorkspaceWithStorage()
  await configure(other, { objects: { user: RULES } })
  const as = await userToken(other, 'mia')
  for (const [method, key] of [
    ['GET', 'private/mia/a'],
    ['PUT', 'private/mia/a'],
    ['DELETE', 'private/mia/a'],
  ] as const) {
    const { status, body } = await call(method, `${path}/${key}`, {
      as,
      ...(method === 'PUT' && { body: 'x' }),
    })
    expect([method, status, body.code]).toEqual([method, 403, 'AccessDenied'])
  }
  const listed = await list(as, '?prefix=private/mia/')
  expect([listed.status, listed.body.code]).toEqual([403, 'AccessDenied'])
  expect((await send('GET', workspace.service, 'private/mia/a')).body).toBe('private/mia/a')
})

describe('byte quota', () => {
  const LIMIT = { object_bytes: 1_000 }

  test('uploads and deletions of users – count, and a refusal shows no use', async () => {
    const ws = await createTestWorkspaceWithStorage()
    const bucket = `/v1/objects/${await bucketOf(ws)}`
    await configure(ws, { objects: { user: RULES } })
    await limit(ws, LIMIT)
    const as = await userToken(ws, 'mia')
    const upload = (size: number, name = 'a') =>
      call('PUT', `${bucket}/private/mia/${name}`, { as, body: 'x'.repeat(size) })
    expect((await upload(600)).status).toBe(201)
    const refused = await upload(600, 'b')
    expect([refused.status, refused.body.code, refused.body.quota]).toEqual([
      429,
      'quota_exceeded',
      'object_bytes',
    ])
    expect(refused.body).not.toHaveProperty('used')
    expect((await quota(ws, 'object_bytes')).used).toBe(600)
    expect((await upload(300)).status).toBe(200)
    expect((await quota(ws, 'object_bytes')).used).toBe(300)
    expect((await call('DELETE', `${bucket}/private/mia/a`, { as })).status).toBe(200)
    expect((await quota(ws, 'object_bytes')).used).toBe(0)
  })

  test('upload whose process died – is given up by a user who needs the space', async () => {
    const ws = await createTestWorkspaceWithStorage()
    const bucket = await bucketOf(ws)
    await configure(ws, { objects: { user: RULES } })
    await limit(ws, LIMIT)
    const as = await userToken(ws, 'mia')
    const put = () => call('PUT', `/v1/objects/${bucket}/private/mia/a`, { as, body: 'x'.repeat(600) })
    const ref = [ws.tenantId, ws.workspaceId]
    const left = `insert into tenon.object_uploads (id, bytes, expires_at) values (gen_random_uuid(), 900, now() + interval '1 hour')`
    await sqlAsRole('tenon_service', ref, `${left}; commit`)
    expect((await put()).status).toBe(429)
    await asSuperuser(
      `update tenon.object_uploads set expires_at = now() - interval '1 s' where workspace_id = $1`,
      [ws.workspaceId],
    )
    expect((await put()).status).toBe(201)
    expect((await quota(ws, 'object_bytes')).used).toBe(600)
  })

  const meta = (bucket: string, key: string) => `bucket ${btoa(bucket)},key ${btoa(key)}`
  const TUS = { 'tus-resumable': '1.0.0', 'content-type': 'application/offset+octet-stream' }
  const BOUNDARY = '--x\r\ncontent-disposition: form-data; name="f"; filename="a"\r\n\r\n'

  /** Ways to upload one object: what is sent first, with the length of the whole body. */
  const WAYS: readonly (readonly [
    way: string,
    begin: (bucket: string, as: Caller) => Promise<[method: string, path: string, headers: Caller]>,
    first: string,
    last: string,
  ])[] = [
    ['PUT', async (bucket) => ['PUT', `/v1/objects/${bucket}/private/mia/a`, {}], 'first', 'last'],
    [
      'form',
      async (bucket) => [
        'POST',
        `/v1/objects/${bucket}/private/mia/a`,
        { 'content-type': 'multipart/form-data; boundary=x' },
      ],
      `${BOUNDARY}${'first'.repeat(20)}`,
      'last\r\n--x--\r\n',
    ],
    [
      'tus',
      async (bucket, as) => {
        const headers = { ...TUS, 'upload-length': '9', 'upload-metadata': meta(bucket, 'private/mia/a') }
        const made = await call('POST', '/v1/uploads', { as, headers, body: '' })
        return ['PATCH', made.headers.get('location') ?? '', { ...TUS, 'upload-offset': '0' }]
      },
      'first',
      'last',
    ],
  ]

  /** Settings that end the right to write: without any rule, the database refuses as well. */
  const ENDS = [{ write: [] }, { write: ['avatars/{user.id}/'] }, { read: [], write: [], delete: [] }]

  test.each(
    WAYS.flatMap(([way, begin, first, last]) => ENDS.map((end) => [way, end, begin, first, last] as const)),
  )(
    '%s whose right %j ends while its bytes come – is refused, stores nothing and frees its bytes',
    async (_way, end, begin, first, last) => {
      const ws = await createTestWorkspaceWithStorage()
      const bucket = await bucketOf(ws)
      await configure(ws, { objects: { user: RULES } })
      await limit(ws, LIMIT)
      const as = await userToken(ws, 'mia')
      const [method, path, own] = await begin(bucket, as)
      const { hostname, port } = new URL(inject('tenon').url)
      const headers = { ...as, ...own, 'content-length': first.length + last.length }
      const outgoing = request({ hostname, port, path, method, headers, agent: false })
      outgoing.write(first)
      const reserved = () => quota(ws, 'object_bytes').then(({ used }) => (used ? true : undefined))
      await eventually(reserved)
      await configure(ws, { objects: { user: end } })
      const [response] = (await once(outgoing.end(last), 'response')) as [IncomingMessage]
      expect([response.statusCode, JSON.parse(await text(response)).code]).toEqual([403, 'forbidden'])
      const key = `/v1/objects/${bucket}/private/mia/a`
      expect((await call('GET', key, { as: ws.service })).body.code).toBe('NoSuchKey')
      const { used } = await quota(ws, 'object_bytes')
      if (method !== 'PATCH') return expect(used).toBe(0)
      // An upload that resumes keeps what it has, for when the right comes back.
      expect(used).toBe(9)
      await configure(ws, { objects: { user: RULES } })
      await call('HEAD', path, { as, headers: TUS })
      expect((await call('GET', key, { as: ws.service })).status).toBe(200)
    },
  )
})
