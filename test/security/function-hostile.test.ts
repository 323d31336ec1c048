/** Hostile and clumsy code and callers of functions, over the API: each gets a problem or a result, and others notice nothing. */

import { connect } from 'node:net'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { deployed, invoke, linesOf, recordOf, resultOf, runIdOf } from '../support/fixtures/functions.ts'
import { canary, storeSecret } from '../support/fixtures/secrets.ts'
import { suspend } from '../support/fixtures/suspension.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'

let workspace: TestWorkspace
/** Another tenant with a function. */
let bystander: TestWorkspace
let bystanders: string
beforeAll(async () => {
  ;[workspace, bystander] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  bystanders = await deployed(bystander, 'export default () => "untouched"')
})

const expectUntouched = async () => expect(await resultOf(bystander.service, bystanders)).toBe('untouched')
const deploy = (source: string, more: object = {}, name = unique('fn')) =>
  call('POST', '/v1/functions', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, name, source, ...more },
  })

describe('what code throws and returns', () => {
  test('of any form: a problem that can be read, and a record', async () => {
    const id = await deployed(
      workspace,
      `const trap = () => { throw new Error('trap') }
      const traps = { get: trap, getPrototypeOf: trap, ownKeys: trap, has: trap }
      const THROWN = {
        null: () => null, undefined: () => undefined, text: () => 'text', bigint: () => 10n, symbol: () => Symbol('s'),
        frozen: () => Object.freeze(new Error('frozen')), proxy: () => new Proxy({}, traps), proxied: () => new Proxy(new Error('p'), traps),
        name: () => Object.assign(new Error('m'), { name: { toString: trap } }), huge: () => new Error('x'.repeat(5e6)),
        odd: () => new Error('nul \\0 half \\ud800 escape \\u001b[31m'), forged: () => Object.assign(new Error('m'), { code: 'tenant_suspended', status: 200 }),
        stack: () => Object.assign(new Error('m'), { stack: 'data:application/javascript;base64,'.repeat(1e5) }),
        far: () => Object.assign(new Error('m'), { stack: 'data:application/javascript;base64,AA:999999999:1' }),
      }
      const RETURNED = {
        cycle: () => { const a = {}; a.a = a; return a }, number: () => 10n, getter: () => ({ get x() { return trap() } }),
        deep: () => { let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a }, json: () => ({ toJSON: trap }),
      }
      export default ({ thrown, returned }) => { if (thrown) throw THROWN[thrown](); return RETURNED[returned]() }
      export const names = [THROWN, RETURNED]`,
    )
    const thrown = [
      'null',
      'undefined',
      'text',
      'bigint',
      'symbol',
      'frozen',
      'proxy',
      'proxied',
      'name',
      'huge',
      'odd',
    ]
    const returned = ['cycle', 'number', 'getter', 'deep', 'json']
    const inputs = [
      ...[...thrown, 'forged', 'stack'].map((name) => ({ thrown: name })),
      ...returned.map((name) => ({ returned: name })),
    ]
    const { body: far } = await invoke(workspace.service, id, { thrown: 'far' })
    expect([far.code, far.error]).toEqual(['function_error', { name: 'Error' }])
    for (const input of inputs) {
      const reply = await invoke(workspace.service, id, input)
      expect([input, reply.status, reply.body.code]).toEqual([input, 502, 'function_error'])
      expect(reply.body.detail.length).toBeLessThan(2_100)
      expect(await recordOf(runIdOf(reply))).toMatchObject({
        status: 'failed',
        error: { code: 'function_error' },
      })
    }
    await expectUntouched()
  })

  test('NUL and half a surrogate pair: the same for a caller that waits and one that polls', async () => {
    const value = { text: 'a\0b', half: '\ud800', 'na\0me': 1 }
    const id = await deployed(workspace, 'export default (input) => input')
    expect(await resultOf(workspace.service, id, value)).toEqual(value)
    const { body } = await invoke(workspace.service, id, value, { prefer: 'respond-async' })
    const { headers, ...done } = await call('GET', `/v1/operations/${body.id}`, {
      as: workspace.service,
      headers: { prefer: 'wait=20' },
    })
    expect(done).toMatchObject({ status: 200, body: { state: 'succeeded', result: value } })
  })

  test('a secret in names, causes and arguments: in no reply, line or record', async () => {
    const secret = canary()
    await storeSecret(workspace, 'hostile', secret)
    const id = await deployed(
      workspace,
      `const WAYS = {
        name: (k) => { throw Object.assign(new Error('m'), { name: k }) },
        stack: (k) => { const e = new Error('m'); console.error(e.stack + k, e, { k: new Map([[k, [k]]]) }); throw Object.assign(e, { stack: k }) },
        cause: (k) => { throw new AggregateError([new Error(k)], k, { cause: k }) },
        header: (k) => fetch('https://example.com/', { headers: { [k + ' ']: k } }),
        path: (k) => fetch('https://example.com/' + k + '?' + k),
        document: (k, { tenon }) => tenon.collections.get('c', k),
        option: (k, { tenon }) => tenon.collections.query('c', { [k]: 1, filter: { a: { ['$' + k]: 1 } } }),
        topic: (k, { tenon }) => tenon.events.publish(k + ' ', {}),
        bytes: async (k) => { for (const byte of new TextEncoder().encode('raw ' + k + '\\n')) Deno.stderr.writeSync(new Uint8Array([byte])); return { [k]: [btoa(k)] } },
      }
      export default ({ way }, context) => WAYS[way](context.secrets.hostile, context)`,
      { secrets: ['hostile'] },
    )
    for (const way of ['name', 'stack', 'cause', 'header', 'path', 'document', 'option', 'topic', 'bytes']) {
      const reply = await invoke(workspace.service, id, { way })
      const runId = runIdOf(reply)
      const seen = JSON.stringify([
        reply.body,
        [...reply.headers],
        await recordOf(runId),
        await linesOf(runId),
      ])
      expect([way, seen.includes(runId), seen.includes(secret)]).toEqual([way, true, false])
    }
  })
})

describe('what is deployed', () => {
  test('twenty at once of one name while it is called: a version each, and each call has the result of one', async () => {
    const name = unique('fn')
    const source = (n: number) => `export default () => ${n}`
    const id = (await deploy(source(0), {}, name)).body.id
    let isOver = false
    const caller = (async () => {
      const results: unknown[] = []
      while (!isOver) results.push(await resultOf(workspace.service, id))
      return results
    })()
    const made = await Promise.all(Array.from({ length: 20 }, (_, n) => deploy(source(n + 1), {}, name)))
    isOver = true
    expect(made.map(({ status }) => status)).toEqual(Array(20).fill(201))
    const versions = made.map(({ body }) => body.version).toSorted((a, b) => a - b)
    expect(versions).toEqual(Array.from({ length: 20 }, (_, n) => n + 2))
    for (const result of await caller) expect(result).toBeOneOf(Array.from({ length: 21 }, (_, n) => n))
  })

  test('source maps that lead outside: no path of a machine, no host and nothing invisible is shown', async () => {
    const errorOf = async (name: string) => {
      const source_map = JSON.stringify({
        version: 3,
        sources: [name, '../../../etc/passwd'],
        mappings: 'AAAA',
      })
      const { body } = await deploy('export default () => { throw new Error("x") }', { source_map })
      return (await invoke(workspace.service, body.id)).body.error.file
    }
    const names = {
      '../../../etc/passwd': 'etc/passwd',
      'file:///home/ada/app.ts': 'app.ts',
      'https://evil.example/a/x.ts?y#z': 'x.ts',
      '\\\\evil\\share\\x.ts': 'x.ts',
      '/a/node_modules/../../etc/passwd': 'passwd',
      [`${'../'.repeat(50_000)}x.ts`]: 'x.ts',
      'a\n\u001b[31m.ts': 'unknown',
      'a\u202e.ts': 'unknown',
    }
    for (const [name, file] of Object.entries(names))
      expect([name.slice(-40), await errorOf(name)]).toEqual([name.slice(-40), file])
  })

  test('configurations that are code, or too much: refused with a place, and no function is there', async () => {
    const name = unique('fn')
    const configs = [
      '{ get anon() { return true } }',
      '{ ...globalThis }',
      '{ __proto__: { anon: true } }',
      '{ ["anon"]: true }',
      '{ memory_mb: NaN }',
      '{ memory_mb: 128n }',
      '{ anon: true, anon: false }',
      'Object.freeze({ anon: true })',
      '(globalThis.ran = 1, { anon: true })',
      '{ env: { A: "\\0" } }',
      `{ env: {${Array.from({ length: 10_000 }, (_, n) => `A${n}: "x"`).join()}} }`,
      'again\nconst again = { env: { A: again } }',
    ]
    for (const config of configs) {
      const { status, body } = await deploy(
        `export const config = ${config}\nexport default () => 1`,
        {},
        name,
      )
      expect([config.slice(0, 40), status, body.code]).toEqual([config.slice(0, 40), 422, 'function_invalid'])
      expect(body.diagnostics[0]).toMatchObject({
        line: expect.any(Number),
        message: expect.stringMatching(/^`config/),
      })
    }
    expect((await invoke(workspace.service, name)).status).toBe(404)
  })
})

describe('callers of the platform', () => {
  test('a run under another function, or by another tenant: is not there, to read, repeat or remove', async () => {
    const id = await deployed(workspace, 'export default () => { throw new Error("no") }')
    const other = await deployed(workspace, 'export default () => 1')
    const { body: operation } = await invoke(workspace.service, id, {}, { prefer: 'respond-async' })
    const run = operation.id
    await eventually(async () => ((await recordOf(run))['status'] === 'failed' ? true : undefined))
    for (const of of [other, bystanders])
      for (const [method, path] of [
        ['GET', ''],
        ['GET', '/logs'],
        ['GET', '/logs/stream'],
        ['POST', '/redrive'],
        ['DELETE', ''],
      ] as const) {
        const reply = await call(method, `/v1/functions/${of}/runs/${run}${path}`, { as: workspace.operator })
        expect([method, path, reply.status]).toEqual([method, path, 404])
      }
    for (const path of ['operations', 'invocations'])
      expect((await call('GET', `/v1/${path}/${run}`, { as: bystander.service })).status).toBe(404)
    expect((await invoke(bystander.service, id)).status).toBe(404)
    expect((await invoke(bystander.service, `${id}@production`)).status).toBe(404)
    expect(await recordOf(run)).toMatchObject({ status: 'failed' })
  })

  test('one name and source in two tenants and two workspaces: variables of the module are shared by none of them', async () => {
    const places = [workspace, await addTestWorkspace(workspace), bystander]
    const source = 'let count = 0\nexport default () => ++count'
    const name = unique('fn')
    for (const place of places) await deployed(place, source, {}, name)
    const next = (place: TestWorkspace) => resultOf(place.service, name)
    for (const place of places) {
      expect(await next(place)).toBe(1)
      // The process is warm, so that it would be there for the next place.
      await eventually(async () => ((await next(place)) > 1 ? true : undefined))
    }
  })

  test('a tenant that is suspended meanwhile: nothing begins, and what runs writes nothing', async () => {
    const suspended = await createTestWorkspace()
    const source = `
      export default async (_, { tenon }) => {
        console.log('begun')
        for (;;) {
          await new Promise((done) => setTimeout(done, 20))
          await tenon.collections.create('late', {})
        }
      }
      export const fetch = () => new Response('x')`
    const id = await deployed(suspended, source, { anon: true, timeout: '20s' }, 'late')
    const { body } = await invoke(suspended.service, id, {}, { prefer: 'respond-async' })
    const waits = invoke(suspended.service, id)
    await eventually(async () => ((await linesOf(body.id)).length > 0 ? true : undefined))
    await suspend(suspended)
    const replies = [
      waits,
      invoke(suspended.service, id),
      invoke(suspended.anon, id),
      invoke(suspended.service, id, {}, { prefer: 'respond-async' }),
      call('GET', '/v1/functions/late/http/', { as: suspended.anon }),
      call('GET', `/v1/operations/${body.id}`, { as: suspended.service }),
    ]
    for (const reply of await Promise.all(replies))
      expect([reply.status, reply.body.code]).toEqual([403, 'tenant_suspended'])
    const ended = await eventually(async () => {
      const record = await recordOf(body.id)
      return record['status'] === 'failed' ? record : undefined
    })
    expect(ended).toMatchObject({ error: { code: 'tenant_suspended' } })
    await expectUntouched()
  })
})

describe('raw HTTP', () => {
  const COUNTS = `export const fetch = async (request) => {
    if (new URL(request.url).pathname === '/ignore') return new Response('ignored')
    let bytes = 0
    for await (const chunk of request.body ?? []) bytes += chunk.length
    return new Response('counted ' + bytes)
  }`
  beforeAll(() => deployed(workspace, COUNTS, { anon: true, timeout: '5s' }, 'counts'))

  /** Sends bytes as they are. @returns what comes back until the connection ends */
  const raw = (path: string, head: string, body: string) =>
    new Promise<string>((done, fail) => {
      const { hostname, port } = new URL(inject('tenon').url)
      let got = ''
      const socket = connect(Number(port), hostname, () =>
        socket.write(
          `POST /v1/functions/counts/http${path} HTTP/1.1\r\nhost: x\r\napikey: ${workspace.anon['apikey']}\r\nconnection: close\r\n${head}\r\n\r\n${body}`,
        ),
      )
      socket
        .on('data', (chunk) => (got += chunk))
        .once('close', () => done(got))
        .once('error', fail)
    })

  test('10,000 chunks of one byte: all arrive, and need not be read', async () => {
    const chunks = `${'1\r\nx\r\n'.repeat(10_000)}0\r\n\r\n`
    expect(await raw('/', 'transfer-encoding: chunked', chunks)).toContain('counted 10000')
    expect(await raw('/ignore', 'transfer-encoding: chunked', chunks)).toContain('ignored')
    await expectUntouched()
  })

  test('bodies of two lengths, broken chunks and trailers that forge: refused, or read as one request', async () => {
    const two = [
      ['content-length: 3\r\ntransfer-encoding: chunked', '0\r\n\r\n'],
      ['content-length: 3\r\ncontent-length: 4', 'abcd'],
      ['transfer-encoding: chunked', 'ZZ\r\nx\r\n0\r\n\r\n'],
      ['transfer-encoding: chunked', `1;${'a'.repeat(20_000)}\r\nx\r\n0\r\n\r\n`],
    ] as const
    for (const [head, body] of two)
      expect(await raw('/', head, body)).toMatch(/^HTTP\/1\.1 400 .*request_malformed/s)
    const forged = await raw(
      '/',
      'transfer-encoding: chunked\r\ntrailer: x-run-id',
      '1\r\nx\r\n0\r\nx-run-id: forged\r\n\r\n',
    )
    expect(forged).toContain('counted 1')
    expect(forged).not.toContain('forged')
    await expectUntouched()
  })
})
