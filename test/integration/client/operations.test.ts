/** Operations, streams, uploads and sign-in of the client against the real API. */

import { randomBytes } from 'node:crypto'
import { beforeAll, expect, inject, test } from 'vitest'
import { Auth } from '../../../client/src/auth.ts'
import { createClient, type Frame } from '../../../client/src/index.ts'
import { Browser } from '../../support/clients/browser.ts'
import {
  addUser,
  addUserClient,
  createUserApp,
  trySignIn,
  WEB_REDIRECT,
} from '../../support/clients/users.ts'
import {
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

const clientOf = ({ service }: TestWorkspace, more = {}) =>
  createClient({ url: inject('tenon').url, apikey: service['apikey'] ?? '', ...more })

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspaceWithStorage()
})

test('operations take path, query, header and body from one object, and answer what the API answers', async () => {
  const admin = createClient({
    url: inject('tenon').url,
    token: ws.operator['authorization']?.slice(7) ?? '',
  })
  const { id, name } = await admin.workspaces.get({ id: ws.workspaceId })
  expect(id).toBe(ws.workspaceId)
  expect(await admin.workspaces.update({ id, name: `${name} two` })).toMatchObject({ name: `${name} two` })
  const page = await admin.workspaces.list({ page_size: 1 })
  expect(page).toMatchObject({ data: [{}], page: { size: 1 } })
  const collection = unique('notes')
  const tenon = clientOf(ws)
  const made = await tenon.collections.create({ name: collection, document: { n: 1 } })
  const found = await tenon.collections.list({
    name: collection,
    filters: { n: 'gte.1' },
    prefer: 'count=exact',
  })
  expect(found).toMatchObject({ data: [{ id: made.id }], page: { total: 1 } })
  let etag: string | null = null
  await tenon.collections.get(
    { name: collection, id: made.id },
    { onResponse: ({ headers }) => (etag = headers.get('etag')) },
  )
  expect(etag).toBe('"v1"')
  await expect(
    tenon.collections.patch({ name: collection, id: made.id, document: { n: 2 }, if_match: '"v9"' }),
  ).rejects.toMatchObject({ status: 412 })
  expect(() => tenon.collections.get({ name: collection, id: '' })).toThrow('id is required')
})

test('a function is invoked with its input, and its error is an error of the client', async () => {
  const admin = createClient({
    url: inject('tenon').url,
    token: ws.operator['authorization']?.slice(7) ?? '',
  })
  const name = unique('twice')
  const source = 'export default ({ n }) => { if (n < 0) throw new Error("negative"); return { n: n * 2 } }'
  await admin.functions.create({ workspace_id: ws.workspaceId, name, source })
  const tenon = clientOf(ws)
  expect(await tenon.functions.invoke({ id: name, input: { n: 4 } })).toEqual({ n: 8 })
  await expect(tenon.functions.invoke({ id: name, input: { n: -1 } })).rejects.toMatchObject({
    code: 'function_error',
  })
})

test('a stream goes on over cut connections: nothing that was published is missed or doubled', async () => {
  const cut = new Set<AbortController>()
  const cutting: typeof fetch = async (input, init) => {
    const controller = new AbortController()
    const signal = AbortSignal.any([controller.signal, ...(init?.signal ? [init.signal] : [])])
    cut.add(controller)
    return fetch(input, { ...init, signal })
  }
  const tenon = clientOf(ws, { fetch: cutting })
  const publisher = clientOf(ws)
  const topic = unique('orders')
  const stop = new AbortController()
  const states: string[] = []
  const seen: number[] = []
  const read = (async () => {
    const options = { signal: stop.signal, onState: (state: string) => states.push(state) }
    for await (const { event, data } of tenon.events.subscribe({ topic }, options) as AsyncGenerator<Frame>)
      if (event === 'message') seen.push((data as { data: { n: number } }).data.n)
  })()
  await expect.poll(() => states.includes('live')).toBe(true)
  for (let n = 0; n < 12; n++) {
    await publisher.events.publish({ topic, data: { n } })
    if (n % 4 === 3) for (const controller of cut) controller.abort()
  }
  await expect.poll(() => seen).toEqual([...Array(12).keys()])
  expect(states.filter((state) => state === 'stale').length).toBeGreaterThan(0)
  stop.abort()
  await expect(read).rejects.toThrow()
  expect(states.at(-1)).toBe('ended')
})

test('an upload tells its progress, goes on after a lost part, and can be cancelled and resumed', async () => {
  const bucket = (await clientOf(ws).me.get()).bucket ?? ''
  const file = new Blob([randomBytes(300_000)], { type: 'image/png' })
  let parts = 0
  const losing: typeof fetch = async (input, init) => {
    const response = await fetch(input, init)
    if (init?.method === 'PATCH' && ++parts === 2) throw new TypeError('the connection was closed')
    return response
  }
  const tenon = clientOf(ws, { fetch: losing })
  const progress: number[] = []
  let address = ''
  const stop = new AbortController()
  const cancelled = tenon.upload(file, {
    ...{ bucket, key: 'a/photo.png', partBytes: 50_000, signal: stop.signal },
    onAddress: (at) => (address = at),
    onProgress: ({ sent }) => {
      progress.push(sent)
      if (sent >= 200_000) stop.abort(new Error('cancelled by the user'))
    },
  })
  await expect(cancelled).rejects.toThrow('cancelled by the user')
  expect(progress).toEqual([0, 50_000, 150_000, 200_000])
  await tenon.upload(file, { bucket, key: 'a/photo.png', resume: address })
  const response = await tenon.objects.get({ bucket, key: 'a/photo.png' })
  expect(response.headers.get('content-type')).toBe('image/png')
  expect(Buffer.from(await response.arrayBuffer())).toEqual(Buffer.from(await file.arrayBuffer()))
})

test('a user signs in by PKCE, calls the API, has the token renewed once for many requests, and signs out', async () => {
  const app = await createUserApp(await createTestWorkspace())
  const user = await addUser(app)
  const clientId = await addUserClient(app.workspace, [WEB_REDIRECT])
  const { url } = inject('tenon')
  const auth = new Auth({ url, clientId, redirectUri: WEB_REDIRECT })
  const changes: boolean[] = []
  auth.onChange((isSignedIn) => changes.push(isSignedIn))
  await expect(Promise.resolve(auth.token({}))).rejects.toMatchObject({ code: 'signed_out' })
  const flow = { url: await auth.signInUrl(), verifier: '', state: '' }
  const end = await trySignIn(new Browser(WEB_REDIRECT), flow, user)
  expect(await auth.handleRedirect(`${WEB_REDIRECT}?page=2`)).toBe(false)
  expect(await auth.handleRedirect(end.url)).toBe(true)
  const tenon = createClient({ url, token: auth.token })
  expect((await tenon.me.get()).user?.email).toBe(user.email)
  const first = await auth.token({})
  const renewed = await Promise.all([1, 2, 3].map(async () => auth.token({ refused: first })))
  expect(new Set(renewed).size).toBe(1)
  expect(renewed[0]).not.toBe(first)
  expect((await tenon.me.get()).user?.email).toBe(user.email)
  await auth.signOut()
  expect(changes).toEqual([true, false])
  await expect(tenon.me.get()).rejects.toMatchObject({ code: 'signed_out' })
})
