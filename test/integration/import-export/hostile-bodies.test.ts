/** Imports and exports with bad bodies, slow or silent clients, concurrent changes, and other tenants. */

import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { get, type IncomingMessage } from 'node:http'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { API_LIMITS } from '../../../src/api/limits.ts'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import { exported, importInto, lines, openImport } from '../../support/clients/ndjson.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let other: TestWorkspace
beforeAll(async () => {
  ;[workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
})

const count = (to: number) => Array.from({ length: to }, (_, n) => ({ n }))
const asService = () => ({ as: workspace.service })
const numbers = (all: readonly { n?: unknown }[]) => all.map(({ n }) => n)

describe('import bodies', () => {
  test('import: line of 10 MB: reported as an error, skipped', async () => {
    const name = unique('c')
    const text = `{"n":1}\n{"x":"${'x'.repeat(10_000_000)}"}\n{"n":3}\n`
    const { status, body } = await importInto(name, text, { as: workspace.service })
    expect([status, body.lines, body.created]).toEqual([200, 3, 2])
    expect(body.errors).toMatchObject([{ line: 2, code: 'body_too_large' }])
    expect(numbers(await exported(name, asService()))).toEqual([1, 3])
  })

  test('import: line without an end: aborted, the lines before it are stored', async () => {
    const name = unique('c')
    const { sent, reply } = openImport(name, { as: workspace.service })
    sent.write(lines(...count(COLLECTION_LIMITS.importChunkLines)))
    const piece = Buffer.alloc(1_048_576, 'x')
    let ended = false
    sent.on('close', () => {
      ended = true
    })
    sent.on('response', () => {
      ended = true
    })
    for (let n = 0; n < 100 && !ended; n++) await new Promise((done) => sent.write(piece, done))
    const { status, body } = await reply
    expect([status, body.code]).toEqual([413, 'body_too_large'])
    expect(body.imported).toMatchObject({
      lines: COLLECTION_LIMITS.importChunkLines,
      created: COLLECTION_LIMITS.importChunkLines,
    })
    sent.destroy()
  })

  test('import: a million empty lines: counted, nothing is stored', async () => {
    const { body } = await importInto(unique('c'), '\n'.repeat(1_000_000), { as: workspace.service })
    expect(body).toEqual({ lines: 1_000_000, created: 0, existing: 0, failed: 0, errors: [] })
  })

  test('import: compressed or not NDJSON: refused by its headers, or line by line', async () => {
    const as = workspace.service
    const name = unique('c')
    const bytes = gzipSync(lines(...count(100)))
    const post = async (headers: Record<string, string>) => {
      const response = await fetch(`${inject('tenon').url}/v1/collections/${name}/import`, {
        ...{ method: 'POST', headers: { ...as, ...headers }, body: bytes },
      })
      // biome-ignore lint/suspicious/noExplicitAny: replies of every shape
      return { status: response.status, body: (await response.json()) as any }
    }
    const type = { 'content-type': 'application/x-ndjson' }
    for (const headers of [{ ...type, 'content-encoding': 'gzip' }, { 'content-type': 'application/zip' }]) {
      const { status, body } = await post(headers as Record<string, string>)
      expect([status, body.code]).toEqual([415, 'media_type_unsupported'])
    }
    const { status, body } = await post(type)
    expect([status, body.created, body.errors[0].code]).toEqual([200, 0, 'body_invalid'])
    expect(await exported(name, { as })).toEqual([])
  })

  test('import: truncated UTF-8 character: an error of its line only', async () => {
    const as = workspace.service
    const name = unique('c')
    const bytes = Buffer.concat([
      Buffer.from('{"n":1}\n{"n":"'),
      Buffer.from([0xc3]),
      Buffer.from('"}\n{"n":3}'),
    ])
    const { sent, reply } = openImport(name, { as })
    // Byte by byte: characters and lines arrive in pieces.
    for (const byte of bytes) await new Promise((done) => sent.write(Buffer.from([byte]), done))
    sent.end()
    expect((await reply).body).toMatchObject({
      ...{ lines: 3, created: 2, failed: 1 },
      errors: [{ line: 2, code: 'body_invalid', detail: 'The line is not valid UTF-8.' }],
    })
    expect(numbers(await exported(name, { as }))).toEqual([1, 3])
  })
})

describe('clients that disconnect', () => {
  test('import: connection lost during the upload: whole lines are stored, a retry stores the rest', async () => {
    const as = workspace.service
    const name = unique('c')
    const headers = { 'idempotency-key': 'k' }
    const text = lines(...count(1_200))
    const { sent, reply } = openImport(name, { as, headers })
    reply.catch(() => {})
    sent.write(text.slice(0, text.length - 500))
    await eventually(async () => ((await exported(name, { as })).length >= 1_000 ? true : undefined))
    sent.destroy()
    const again = await importInto(name, text, { as, headers })
    expect(again.body).toMatchObject({ lines: 1_200, created: 200, existing: 1_000, failed: 0 })
    expect(numbers(await exported(name, { as }))).toEqual(numbers(count(1_200)))
  })

  // Each of the next two waits for half a minute.
  test.concurrent('import: client silent during the upload: the reply reports the progress', async () => {
    const name = unique('c')
    const { sent, reply } = openImport(name, { as: workspace.service })
    sent.write(`${lines(...count(COLLECTION_LIMITS.importChunkLines))}{"n":`)
    const { status, body } = await reply
    expect([status, body.code]).toEqual([400, 'body_incomplete'])
    expect(body.imported).toMatchObject({
      lines: COLLECTION_LIMITS.importChunkLines,
      created: COLLECTION_LIMITS.importChunkLines,
    })
    sent.destroy()
  })

  test.concurrent('export: client stops reading: cut off, recognisably incomplete', async () => {
    const as = workspace.service
    const name = await createLargeCollection(as)
    const response = await openRequest(`/v1/collections/${name}/export`, as)
    const ended = new Promise<boolean>((done) => {
      response.once('error', () => done(response.complete))
      response.once('end', () => done(response.complete))
    })
    const { localPort } = response.socket
    await eventually(
      async () => ((await isConnectionOpen(localPort)) ? undefined : true),
      2 * API_LIMITS.streamStallMs,
    )
    response.resume()
    expect(await ended).toBe(false)
  })
})

/** About 40 MB, more than all buffers in between can hold. */
async function createLargeCollection(as: Caller): Promise<string> {
  const name = unique('large')
  const rows = count(400).map(({ n }) => ({ n, x: 'x'.repeat(100_000) }))
  expect((await importInto(name, lines(...rows), { as })).body.created).toBe(400)
  return name
}

/**
 * Whether the server still has its end of our connection: a client that reads nothing gets no notice. Other connections
 * may have the same client port, so both ends are compared.
 */
async function isConnectionOpen(port: number | undefined): Promise<boolean> {
  const table = await readFile('/proc/net/tcp', 'utf8')
  const [server, client] = [Number(new URL(inject('tenon').url).port), port ?? 0].map(
    (number) => `:${number.toString(16).toUpperCase().padStart(4, '0')}`,
  ) as [string, string]
  return table.split('\n').some((row) => {
    const [, local = '', remote = '', state] = row.trim().split(/\s+/)
    return local.endsWith(server) && remote.endsWith(client) && state === '01'
  })
}

const openRequest = (path: string, headers: Caller) =>
  new Promise<IncomingMessage>((resolve, reject) => {
    get(`${inject('tenon').url}${path}`, { headers }, resolve).on('error', reject)
  })

describe('rights during the transfer', () => {
  async function createKey(of: TestWorkspace): Promise<{ id: string; as: Caller }> {
    const body = { workspace_id: of.workspaceId, kind: 'service', name: 'x' }
    const made = await call('POST', '/v1/api-keys', { as: of.operator, body })
    return { id: made.body.id, as: { apikey: made.body.key } }
  }
  const revoke = ({ id }: { id: string }) => call('DELETE', `/v1/api-keys/${id}`, { as: workspace.operator })

  test('import: key revoked meanwhile: stores nothing more', async () => {
    const name = unique('c')
    const key = await createKey(workspace)
    const { sent, reply } = openImport(name, { as: key.as })
    sent.on('error', () => {})
    sent.write(lines(...count(COLLECTION_LIMITS.importChunkLines)))
    await eventually(async () => ((await exported(name, asService())).length > 0 ? true : undefined))
    await revoke(key)
    let over = false
    reply.then(
      () => {
        over = true
      },
      () => {},
    )
    await eventually(async () => {
      if (!over) sent.write('\n')
      return over ? true : undefined
    })
    const { status, body } = await reply
    expect([status, body.code]).toEqual([401, 'api_key_revoked'])
    expect(body.imported.created).toBe(COLLECTION_LIMITS.importChunkLines)
    sent.destroy()
  })

  test('export: key revoked meanwhile: returns nothing more', async () => {
    const name = await createLargeCollection(workspace.service)
    const key = await createKey(workspace)
    const response = await openRequest(`/v1/collections/${name}/export`, key.as)
    await revoke(key)
    let over = false
    response.once('error', () => {
      over = true
    })
    response.once('close', () => {
      over = true
    })
    // A few kilobytes per read: the whole transfer takes longer than a key is cached.
    await eventually(async () => {
      response.read()
      return over ? true : undefined
    })
    expect(response.complete).toBe(false)
  })
})

describe('concurrent changes', () => {
  test('import: collection declared between two chunks: later chunks follow the declaration', async () => {
    const as = workspace.service
    const name = unique('c')
    const { sent, reply } = openImport(name, { as })
    // Of an empty collection, which is cached as undeclared.
    sent.write('\n')
    await importInto(name, '', { as })
    const body = {
      ...{ workspace_id: workspace.workspaceId, collection: name, store: 'relational', mode: 'enforce' },
      schema: { properties: { n: { type: 'integer' } } },
    }
    const declared = await call('POST', '/v1/schemas', { as: workspace.operator, body })
    expect(declared.status).toBe(201)
    sent.end(`${lines(...count(600))}{"n":"x"}\n`)
    expect((await reply).body).toMatchObject({
      created: 600,
      failed: 1,
      errors: [{ code: 'schema_violation' }],
    })
    expect(await exported(name, { as, query: '?n=gte.590' })).toHaveLength(10)
  })

  test('import: declaration deleted before the first document: stored in an undeclared collection', async () => {
    const as = workspace.service
    const name = unique('c')
    const body = { workspace_id: workspace.workspaceId, collection: name, store: 'relational', schema: {} }
    const { id } = (await call('POST', '/v1/schemas', { as: workspace.operator, body })).body
    const { sent, reply } = openImport(name, { as })
    sent.write('\n')
    await importInto(name, '', { as })
    expect((await call('DELETE', `/v1/schemas/${id}`, { as: workspace.operator })).status).toBe(200)
    sent.end(lines(...count(600)))
    expect((await reply).body).toMatchObject({ created: 600, failed: 0 })
    expect(await exported(name, { as })).toHaveLength(600)
  })

  test('export: concurrent writes: each document once, none that existed throughout is missing', async () => {
    const as = workspace.service
    const name = unique('c')
    await importInto(name, lines(...count(6_000)), { as })
    const there = await exported(name, { as })
    const response = await openRequest(`/v1/collections/${name}/export`, as)
    const path = (id: string) => `/v1/collections/${name}/documents/${id}`
    const writing = Promise.all([
      importInto(name, lines(...count(2_000)), { as }),
      ...there.slice(0, 40).map(({ id }) => call('PATCH', path(id), { as, body: { changed: true } })),
      ...there.slice(-40).map(({ id }) => call('PATCH', path(id), { as, body: { changed: true } })),
      ...there.slice(3_000, 3_040).map(({ id }) => call('DELETE', path(id), { as })),
    ])
    let text = ''
    for await (const chunk of response.setEncoding('utf8')) text += chunk
    expect(response.complete).toBe(true)
    await writing
    const ids = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).id)
    expect(new Set(ids).size).toBe(ids.length)
    const throughout = [...there.slice(0, 3_000), ...there.slice(3_040)].map(({ id }) => id)
    expect(new Set([...throughout, ...ids]).size).toBe(ids.length)
  })
})

describe('other tenants', () => {
  test('import: id that exists in another tenant: both tenants have their own document', async () => {
    const name = unique('c')
    const [sibling, id] = [await addTestWorkspace(workspace), '0190abcd-0000-7000-8000-00000000000a']
    const all = [
      { of: workspace, by: 'own' },
      { of: other, by: 'other' },
      { of: sibling, by: 'its' },
    ]
    for (const {
      of: { service: as },
      by,
    } of all)
      expect((await importInto(name, lines({ id, by }), { as })).body).toMatchObject({
        created: 1,
        existing: 0,
      })
    for (const {
      of: { service: as },
      by,
    } of all)
      expect(await exported(name, { as })).toMatchObject([{ id, by }])
  })

  test('import: same key and file in another tenant: other ids', async () => {
    const name = unique('c')
    const headers = { 'idempotency-key': 'same' }
    const ids = async ({ service: as }: TestWorkspace) => {
      await importInto(name, lines(...count(10)), { as, headers })
      return (await exported(name, { as })).map(({ id }) => id)
    }
    expect(new Set([...(await ids(workspace)), ...(await ids(other))]).size).toBe(20)
  })
})

test('import: body shorter than its Content-Length: no reply, a retry stores each document once', async () => {
  const name = unique('c')
  const text = lines(...count(10))
  const length = { 'content-length': String(text.length + 10) }
  const { sent, reply } = openImport(name, { as: workspace.service, headers: length })
  reply.catch(() => {})
  sent.write(text)
  sent.destroy()
  await expect(reply).rejects.toThrow()
  const digest = createHash('sha256').update(text).digest('hex')
  const headers = { 'idempotency-key': digest }
  expect((await importInto(name, text, { as: workspace.service, headers })).body.created).toBe(10)
  expect(await exported(name, asService())).toHaveLength(10)
})
