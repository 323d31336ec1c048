/** Code that attacks its process, its channel to the worker, or a later invocation. */

import { execFile, spawn } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { HttpExchange, Invocation } from '../../src/features/functions/sandbox/invocation.ts'
import { Functions } from '../../src/features/functions/sandbox/process-pool.ts'
import { testHost, testInvocation } from '../support/fixtures/invocations.ts'
import { eventually } from '../support/fixtures/tenants.ts'
import { stopwatch } from '../support/stopwatch.ts'

let functions: Functions
beforeAll(async () => {
  functions = new Functions(inject('tenon').env['TENON_DENO_BIN'])
  await functions.warmUp()
})
afterAll(() => functions.close())

type Given = Parameters<typeof testInvocation>[1]
const run = (code: string, members?: Given) => functions.run(testInvocation(code, members))
const never = testHost({ call: () => new Promise(() => {}) })

describe('state of a process', () => {
  const COUNTER =
    'export default () => { globalThis.count = (globalThis.count ?? 0) + 1; return globalThis.count }'

  test('globals: seen by the same version, never by another version, function, workspace, tenant or size', async () => {
    const results = []
    for (const key of [
      'ten_a:ws:fn:1',
      'ten_a:ws:fn:1',
      'ten_a:ws:fn:2',
      'ten_a:ws:f2:1',
      'ten_a:w2:fn:1',
      'ten_b:ws:fn:1',
    ])
      results.push((await run(COUNTER, { key })).result)
    results.push((await run(COUNTER, { key: 'ten_a:ws:fn:1', memoryMb: 64 })).result)
    results.push((await run(COUNTER, { key: 'ten_a:ws:fn:1' })).result)
    expect(results).toEqual([1, 2, 1, 1, 1, 1, 1, 3])
  })

  test('usage: cold at first, warm then; memory is measured', async () => {
    const key = 'ten_u:ws:fn:1'
    const usages = [(await run(COUNTER, { key })).usage, (await run(COUNTER, { key })).usage]
    expect(usages.map(({ cold }) => cold)).toEqual([true, false])
    for (const { memory_mb } of usages) expect(memory_mb).toBeGreaterThan(10)
  })

  test('timers: stand still between invocations', async () => {
    const code = 'let n = 0; setInterval(() => n++, 1); export default () => n'
    const key = 'ten_t:ws:fn:1'
    await run(code, { key })
    await new Promise((done) => setTimeout(done, 300))
    const { result, usage } = await run(code, { key })
    expect(usage.cold).toBe(false)
    expect(result).toBeLessThan(100)
  })

  const SLEEP = 'const sleep = (ms) => new Promise((done) => setTimeout(done, ms));'
  test.each([
    ['rejection', 'void (async () => { await sleep(5); throw new Error("left") })()'],
    ['endless loop', 'setTimeout(() => { for (;;); }, 1); setImmediate(() => { for (;;); })'],
    ['exit', 'setInterval(() => Deno.exit(3), 1)'],
    ['timeout of a signal', 'AbortSignal.timeout(1).onabort = () => Deno.exit(3)'],
    ['timer of a promise', 'again.promise.then(() => setTimeout(() => Deno.exit(3), 1))'],
    ['rejection of a promise', 'again.promise.then(() => { throw new Error("left") })'],
  ])('%s that an invocation left: does not affect the next', async (name, left) => {
    const source = `${SLEEP} const again = Promise.withResolvers()
      export default async ({ again: isAgain }) => {
        if (!isAgain) { ${left}; return 'left' }
        again.resolve(); await sleep(30); return 'unharmed' }`
    const invocation = { key: `ten_m:ws:${name}:1`, timeoutMs: 3_000 }
    await run(source, invocation)
    const next = await run(source, { ...invocation, input: { again: true } })
    expect(next).toMatchObject({ result: 'unharmed', usage: { cold: false } })
  })

  test('rejection of its own, in a warm process: fails it', async () => {
    const source = `const again = Promise.withResolvers()
      export default async (input) => {
        if (!input.again) { again.promise.then(() => { throw new Error('left') }); return 'first' }
        again.resolve()
        void (async () => { await null; throw new Error('own') })()
        await new Promise(() => {}) }`
    const key = 'ten_o:ws:fn:1'
    await run(source, { key })
    const message = expect.stringContaining('own')
    await expect(run(source, { key, input: { again: true } })).rejects.toMatchObject({ detail: message })
  })

  test('process that ends before the code is called: the invocation runs in another', async () => {
    // The program in the process reads the nonce of an invocation with it.
    const source = `export default ({ again }) => {
      Uint8Array.fromHex = () => Deno.exit(3)
      return again ?? 'first' }`
    const key = 'ten_n:ws:fn:1'
    await run(source, { key })
    const next = await run(source, { key, input: { again: 'second' } })
    expect(next).toMatchObject({ result: 'second', usage: { cold: true } })
  })

  test.each([
    ['a timeout', 'for (;;) {}', { timeoutMs: 300 }, 'function_timeout'],
    [
      'an unhandled rejection',
      'Promise.reject(new Error("lost")); await new Promise(() => {})',
      {},
      'function_error',
    ],
    ['exit during a call', 'c.tenon.flows.get("x"); Deno.exit(0)', { host: never }, 'function_error'],
    [
      'an endless loop in finally',
      'try { throw 1 } finally { for (;;) {} }',
      { timeoutMs: 300 },
      'function_timeout',
    ],
    ['an open call', 'c.tenon.flows.get("x"); return 1', { host: never }, undefined],
  ])('%s: ends the process', async (name, body, members, code) => {
    const key = `ten_e:ws:${name}:1`
    const source = `export default async (input, c) => { if (input.again) return 'again'; ${body} }`
    const ended = run(source, { key, ...members })
    if (code === undefined) await ended
    else await expect(ended).rejects.toMatchObject({ code, members: { usage: { cold: true } } })
    expect(await run(source, { key, input: { again: true } })).toMatchObject({
      result: 'again',
      usage: { cold: true },
    })
  })

  test('error that is thrown and nothing more: the process is used again', async () => {
    const source = 'export default () => { throw new Error("no") }'
    const invocation = { key: 'ten_k:ws:fn:1' }
    await expect(run(source, invocation)).rejects.toMatchObject({ members: { usage: { cold: true } } })
    await expect(run(source, invocation)).rejects.toMatchObject({ members: { usage: { cold: false } } })
  })
})

describe('calls after the end', () => {
  test.each([
    ['context', '', 'kept.tenon.flows.get("late")'],
    ['import', 'import { tenon } from "tenon"', 'tenon.flows.get("late")'],
    ['fetch', '', 'fetch("http://late.test/")'],
  ])('promise of an earlier invocation, by %s: refused', async (name, head, late) => {
    const made: unknown[] = []
    const host = testHost({
      call: (method) => Promise.resolve(made.push(method)),
      fetch: ({ url }) => Promise.reject(new Error(`${made.push(url)}`)),
    })
    const source = `${head}
      let kept
      const again = Promise.withResolvers()
      const reported = Promise.withResolvers()
      export default async (input, c) => {
        if (kept) { again.resolve(); return reported.promise }
        kept = c
        again.promise.then(() => ${late}).then(() => reported.resolve('made'), ({ code }) => reported.resolve(code))
      }`
    const invocation = { key: `ten_l:ws:${name}:1`, host }
    await run(source, invocation)
    expect(await run(source, invocation)).toMatchObject({ result: 'run_ended', usage: { cold: false } })
    expect(made).toEqual([])
  })
})

/** Code that learns the nonce of its invocation, by a changed built-in, and writes frames of its own. */
const FORGER = (frames: string) => `
  const set = Uint8Array.prototype.set
  let nonce
  Uint8Array.prototype.set = function (from, at) { if (from.length === 16) nonce ??= from.slice(); return set.call(this, from, at) }
  const frame = (kind, id, json, size = json.length, bytes = 0) => {
    const text = new TextEncoder().encode(json)
    const all = new Uint8Array(29 + text.length)
    set.call(all, nonce)
    set.call(all, new TextEncoder().encode(kind), 16)
    const view = new DataView(all.buffer)
    view.setUint32(17, id); view.setUint32(21, size); view.setUint32(25, bytes)
    set.call(all, text, 29)
    Deno.stdout.writeSync(all)
  }
  export default async (input, c) => { console.log('x'); ${frames}; await new Promise((done) => setTimeout(done, 3000)); return 'unharmed' }`

describe('forged frames', () => {
  const call = `'{"method":"flows.get","args":[]}'`
  test.each([
    ['unknown kind', `frame('Z', 1, '')`],
    ['huge length', `frame('c', 1, '', 4294967295)`],
    ['65 open calls', `for (let id = 1; id <= 65; id++) frame('c', id, ${call})`],
    ['an id twice', `frame('c', 1, ${call}); frame('c', 1, ${call})`],
    ['response without a client', `frame('h', 1, '{"status":200,"headers":[]}')`],
    ['unknown level of a line', `frame('l', 0, 'fatal')`],
    ['endless lines', `for (;;) frame('l', 0, 'info')`],
    ['endless calls', `for (let id = 1; ; id++) frame('c', id, ${call})`],
  ])('%s: ends the process at once', async (_name, frames) => {
    const elapsedMs = stopwatch()
    const ended = run(FORGER(frames), { host: testHost({ call: () => new Promise(() => {}) }) })
    await expect(ended).rejects.toMatchObject({ code: 'function_error' })
    expect(elapsedMs()).toBeLessThan(2_500)
  })

  test.each([
    ['no JSON', `frame('c', 1, 'nothing')`],
    ['too deep', `frame('c', 1, '{"method":"a.b","args":' + '['.repeat(1e5) + ']'.repeat(1e5) + '}')`],
    ['a prototype', `frame('c', 1, '{"method":"a.b","args":[{"__proto__":{"a":1}}]}')`],
    ['no method', `frame('c', 1, '{"args":[]}')`],
    ['a request without an address', `frame('f', 2, '{"method":"GET"}')`],
  ])('call with %s: never reaches the host', async (_name, frames) => {
    const reached: unknown[] = []
    const host = testHost({
      call: (method) => Promise.resolve(reached.push(method)),
      fetch: ({ url }) => Promise.reject(new Error(`${reached.push(url)}`)),
    })
    const source = FORGER(frames).replace('3000', '30')
    expect(await run(source, { host })).toMatchObject({ result: 'unharmed' })
    expect(reached).toEqual([])
  })
})

describe('much of everything', () => {
  test('10,000 calls at once: at most 16 are made at a time, all are answered', async () => {
    let [now, most] = [0, 0]
    const call = async () => {
      most = Math.max(most, ++now)
      await Promise.resolve()
      return --now
    }
    const source =
      'export default async (i, { tenon }) => (await Promise.all(Array.from({ length: 10_000 }, (_, n) => tenon.flows.get(String(n))))).length'
    expect(await run(source, { host: testHost({ call }), timeoutMs: 20_000 })).toMatchObject({
      result: 10_000,
    })
    expect(most).toBeGreaterThan(1)
    expect(most).toBeLessThanOrEqual(16)
  })

  test('process that does not read its replies: the worker holds a bounded number', async () => {
    let made = 0
    const call = async () => {
      made += 1
      return 'x'.repeat(1_000_000)
    }
    const source =
      'export default (i, { tenon }) => { for (let n = 0; n < 60; n++) tenon.flows.get("x"); const end = Date.now() + 400; while (Date.now() < end); return 1 }'
    await run(source, { host: testHost({ call }) })
    expect(made).toBeLessThanOrEqual(17)
  })

  test('bodies of responses: count as memory of the function', async () => {
    const fetch = async () => ({ status: 200, headers: [], body: new Uint8Array(8_000_000) })
    const source =
      'export default async () => { const all = []; for (;;) all.push(await (await fetch("http://a.test")).arrayBuffer()) }'
    await expect(run(source, { host: testHost({ fetch }), memoryMb: 64 })).rejects.toMatchObject({
      code: 'function_out_of_memory',
    })
  })

  test('log: cut at its limit with one line that says so; no control characters', async () => {
    const host = testHost()
    await run(
      'export default () => { console.log("a\\0\\x1b[1mb"); for (let n = 0; n < 1e5; n++) console.log("") }',
      { host },
    )
    expect(host.lines[0]?.text).toBe('a\u{fffd}\u{fffd}[1mb')
    expect(host.lines.at(-1)).toMatchObject({ level: 'warn', text: 'log truncated' })
    expect(host.lines.length).toBeLessThan(5_000)
  })
})

test('raw output that is cut within characters: whole in the log, so that secrets are found in it', async () => {
  const host = testHost()
  const source = `export default async () => {
    for (const out of [Deno.stdout, Deno.stderr])
      for (const byte of new TextEncoder().encode('pässwörd€😀\\n')) {
        out.writeSync(Uint8Array.of(byte))
        await new Promise((done) => setTimeout(done, 2))
      }
    await new Promise((done) => setTimeout(done, 50)) }`
  await run(source, { host })
  expect(host.lines.map(({ text }) => text)).toEqual(['pässwörd€😀', 'pässwörd€😀'])
})

describe('errors', () => {
  const withMap = (sources: string[]) =>
    `export default () => { throw new Error("no") }\n//# ${'source'}MappingURL=data:application/json;base64,${Buffer.from(
      JSON.stringify({ version: 3, sources, names: [], mappings: 'ACSA' }),
    ).toString('base64')}\n`

  test('bundle: located in its source, whose file is named but not opened', async () => {
    await expect(run(withMap(['a.ts', 'file:///etc/passwd']))).rejects.toMatchObject({
      members: { error: { name: 'Error', line: 10, column: 1, file: 'file:///etc/passwd' } },
    })
  })

  test('error of the host: neither its text nor its kind reach the code', async () => {
    const host = testHost({ call: () => Promise.reject(new Error('password of the database')) })
    const source =
      'export default async (i, { tenon }) => { try { await tenon.flows.get("x") } catch (e) { return [e.name, e.code, e.status, e.message] } }'
    expect(await run(source, { host })).toMatchObject({
      result: ['TenonError', 'internal', 500, expect.not.stringContaining('database')],
    })
  })
})

describe('HTTP', () => {
  const serve = async (code: string, http: Partial<HttpExchange>) => {
    const heads: unknown[] = []
    let body = ''
    const exchange: HttpExchange = {
      requestBody: (async function* () {
        yield* ['a', 'b'].map((text) => Buffer.from(text))
      })(),
      respond: async (head) => void heads.push(head),
      write: async (chunk) => {
        body += Buffer.from(chunk).toString()
      },
      ...http,
    }
    const invocation: Partial<Invocation> = {
      ...{ kind: 'fetch', input: { method: 'POST', url: 'https://a.test/x', headers: [['x-a', '1']] } },
      host: testHost({ http: exchange }),
    }
    return { outcome: await run(`export const fetch = ${code}`, invocation), heads, body }
  }

  test('bodies stream in both directions', async () => {
    const { heads, body } = await serve(
      'async (request) => new Response(request.body, { status: 201, headers: { b: request.headers.get("x-a") } })',
      {},
    )
    expect([heads, body]).toEqual([[{ status: 201, headers: [['b', '1'], ...[]] }], 'ab'])
  })

  test.each([
    ['was read', 'await response.text()'],
    ['is being read', 'response.body.getReader()'],
    ['was cancelled', 'await response.body.cancel()'],
  ])('body that %s: fails before the head', async (_name, read) => {
    const respond = () => Promise.reject(new Error('It got a head.'))
    const served = serve(`async () => { const response = new Response('x'); ${read}; return response }`, {
      respond,
    })
    await expect(served).rejects.toMatchObject({
      code: 'function_error',
      members: { error: { name: 'TypeError' } },
    })
  })

  test('endless body: no more is produced than the client takes; its stream is cancelled when the client is gone', async () => {
    // Five frames of 256 KiB and one that is collected are 16 chunks, and a stream is one ahead.
    let left = 5
    const write = () => (left-- > 0 ? Promise.resolve() : Promise.reject(new Error('gone')))
    const code =
      'async () => { let n = 0; return new Response(new ReadableStream({ pull(c) { n++; c.enqueue(new Uint8Array(1e5)) }, cancel() { if (n > 17) for (;;); } })) }'
    expect((await serve(code, { write })).outcome.result).toBeNull()
  })
})

test('worker that is killed: its processes end, stopped and busy ones', async () => {
  const pool = new URL('../../src/features/functions/sandbox/process-pool.ts', import.meta.url)
  const fixture = new URL('../support/fixtures/invocations.ts', import.meta.url)
  const program = `
    const { Functions } = await import(${JSON.stringify(pool.href)})
    const { testInvocation } = await import(${JSON.stringify(fixture.href)})
    const functions = new Functions(${JSON.stringify(inject('tenon').env['TENON_DENO_BIN'])})
    await functions.run(testInvocation('export default () => 1'))
    functions.run(testInvocation('export default () => { console.log("busy"); for (;;) {} }', {
      timeoutMs: 60000,
      host: { call() {}, fetch() {}, log() { console.log('busy') } },
    }))`
  const worker = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await new Promise((done) => worker.stdout.once('data', done))
  const groups = await groupsOf(worker.pid ?? 0)
  expect(groups.length).toBeGreaterThanOrEqual(2)
  worker.kill('SIGKILL')
  const left = await eventually(async () => {
    const all = await allGroups()
    return groups.some((group) => all.includes(group)) ? undefined : 'none'
  }, 5_000)
  expect(left).toBe('none')
})

async function processes(): Promise<(readonly string[])[]> {
  const { stdout } = await promisify(execFile)('ps', ['-eo', 'ppid=,pgid=,args='], { maxBuffer: 1 << 24 })
  return stdout.split('\n').map((line) => /^ *(\d+) +(\d+) (.*)$/.exec(line)?.slice(1) ?? [])
}
const groupsOf = async (pid: number) =>
  (await processes())
    .filter(([ppid, , args = '']) => ppid === String(pid) && args.includes('--deny-net'))
    .map(([, pgid]) => pgid)
const allGroups = async () => (await processes()).map(([, pgid]) => pgid)
