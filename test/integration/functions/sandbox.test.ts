/** Code of functions cannot affect others: each case is code that tries. */

import { beforeAll, describe, expect, inject, test } from 'vitest'
import { deployed, invoke } from '../../support/fixtures/functions.ts'
import {
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { stopwatch } from '../../support/stopwatch.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

/** @returns the reply of the invocation, or of a deployment that is refused */
async function run(source: string, options: { config?: object; input?: unknown } = {}): Promise<Reply> {
  const { config, input = {} } = options
  const made = await call('POST', '/v1/functions', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, name: unique('f'), source, ...(config && { config }) },
  })
  if (made.status !== 201) return made
  return call('POST', `/v1/functions/${made.body.id}/invoke`, { as: workspace.service, body: input })
}

/** Expects nothing of the host in the reply: no path, no address of a program, no variable. */
function expectNoHostDetails(reply: Reply): void {
  expect(JSON.stringify(reply.body)).not.toMatch(
    /\/var\/|\/tmp\/|\/home\/|node_modules|TENON_|base64,|deno-\d|\b0x[0-9a-f]{6}|allow-/,
  )
}

describe('error reports', () => {
  test('error: thrown: message, location in the source, log', async () => {
    const reply = await run(
      'interface A { x: number }\n\nexport default (a: A) => {\n  console.log("at", { n: 1 })\n  throw new TypeError("boom")\n}',
    )
    expect(reply.status).toBe(502)
    expect(reply.body).toMatchObject({
      code: 'function_error',
      detail: 'boom',
      error: { name: 'TypeError', line: 5, column: 9 },
      logs: ['at { n: 1 }'],
    })
    expect(reply.body.run_id).toBe(reply.headers.get('x-run-id'))
    expectNoHostDetails(reply)
  })

  test.each([
    ['throws a text', 'export default () => { throw "just text" }', /^just text$/],
    ['null', 'export default () => { throw null }', /^null$/],
    [
      'throws an object whose conversion fails',
      'export default () => { throw { get message() { throw 1 }, toString() { throw 2 } } }',
      /./,
    ],
    [
      'throws an error with failing getters',
      'export default () => { const e = new Error(); Object.defineProperty(e, "message", { get() { throw e } }); throw e }',
      /cannot be shown/,
    ],
    [
      'unhandled rejection',
      'export default async () => { Promise.reject(new Error("lost")); await new Promise((d) => setTimeout(d, 500)); return 1 }',
      /^lost$/,
    ],
    [
      'error in a timer',
      'export default () => { setTimeout(() => { throw new Error("late") }, 1); return new Promise(() => {}) }',
      /^late$/,
    ],
    ['error while loading', 'const a: any = undefined\nexport default a.b', /undefined/],
    ['default export is no function', 'export default 5', /default export is not a function/],
    ['returns a BigInt', 'export default () => 1n', /BigInt/],
    ['returns a cycle', 'export default () => { const a: any = {}; a.a = a; return a }', /circular/i],
    [
      'returns too deep a value',
      'export default () => { let a: any = 1; for (let i = 0; i < 100; i++) a = [a]; return a }',
      /nested deeper/,
    ],
    [
      'returns far too deep a value',
      'export default () => { let a: any = 1; for (let i = 0; i < 1e6; i++) a = [a]; return a }',
      /./,
    ],
    ['recursion', 'const f = (): number => f() + 1\nexport default f', /call stack/],
    ['endless message', 'export default () => { throw new Error("x".repeat(5e6)) }', /./],
    ['exit', 'export default () => Deno.exit(0)', /ended before it returned/],
    ['process.exit', 'export default () => (globalThis as any).process.exit(3)', /ended before it returned/],
    [
      'abort',
      'export default async () => (await import(String("node:process"))).default.abort()',
      /cannot import modules of Node/,
    ],
  ])('error: %s: reported with its own message', async (_name, source, detail) => {
    const reply = await run(source, { config: { timeout: '60s' } })
    expect(reply.body).toMatchObject({
      status: 502,
      code: expect.stringMatching(/^function_(error|output_too_large)$/),
    })
    expect(reply.body.detail).toMatch(detail)
    expect(JSON.stringify(reply.body).length).toBeLessThan(20_000)
    expectNoHostDetails(reply)
  })

  test('log: at its limit: complete; beyond: truncated', async () => {
    const reply = await run(
      'export default () => { for (let i = 0; i < 1e5; i++) console.error("line", i); throw new Error("end") }',
    )
    expect(reply.body.detail).toBe('end')
    expect(reply.body.logs.at(-1)).toMatch(/^line \d+$|^l/)
    expect(JSON.stringify(reply.body.logs).length).toBeLessThan(16_384)
  })
})

describe('time limit', () => {
  test.each([
    ['endless loop', 'export default () => { for (;;) {} }'],
    ['endless loop while loading', 'for (;;) {}\nexport default () => 1'],
    ['a promise that never settles', 'export default () => new Promise(() => {})'],
    ['endless timers', 'export default () => new Promise(() => setInterval(() => {}, 1))'],
    ['slow regular expression', 'export default () => /^(a+)+$/.test("a".repeat(60) + "b")'],
    [
      'signals caught and ignored',
      'export default () => { for (const s of ["SIGTERM", "SIGINT", "SIGHUP"] as const) Deno.addSignalListener(s, () => {}); return new Promise(() => {}) }',
    ],
  ])('time limit: %s: 504 function_timeout', async (_name, source) => {
    const elapsedMs = stopwatch()
    const reply = await run(source, { config: { timeout: '1s' } })
    expect([reply.status, reply.body.code]).toEqual([504, 'function_timeout'])
    expect(reply.body.detail).toContain('1000 ms')
    expect(elapsedMs()).toBeLessThan(8_000)
    expectNoHostDetails(reply)
  })
})

describe('memory limit', () => {
  test.each([
    ['objects', 'export default () => { const a: unknown[] = []; for (;;) a.push({ a: a.length }) }'],
    [
      'buffers',
      'export default () => { const a: Uint8Array[] = []; for (let i = 0; i < 64; i++) a.push(new Uint8Array(32 << 20).fill(i)); return a.length }',
    ],
    ['one buffer of 2 GB', 'export default () => new Uint8Array(2 ** 31).fill(1).length'],
    ['buffer of impossible size', 'export default () => new ArrayBuffer(2 ** 50).byteLength'],
    [
      'WebAssembly',
      'export default async () => { const m = new WebAssembly.Memory({ initial: 16384 }); const a = new Uint8Array(m.buffer).fill(1); await new Promise((d) => setTimeout(d, 1000)); return a.length }',
    ],
  ])('memory limit: %s: 502 function_out_of_memory', async (_name, source) => {
    const reply = await run(source, { config: { timeout: '60s' } })
    expect([reply.status, reply.body.code]).toEqual([502, 'function_out_of_memory'])
    expect(reply.body.detail).toContain('128 MB')
    expectNoHostDetails(reply)
  })

  test('memory_mb: configured anew, it counts for the next run; more than 512 is refused', async () => {
    const source =
      'export default async () => { const a = new Uint8Array(120 << 20).fill(1); await new Promise((d) => setTimeout(d, 200)); return a.length }'
    const id = await deployed(workspace, source)
    expect((await invoke(workspace.service, id)).body).toBe(120 << 20)
    const configure = (memory_mb: number) =>
      call('PUT', `/v1/functions/${id}/config`, { as: workspace.operator, body: { memory_mb } })
    expect((await configure(64)).status).toBe(200)
    const { body } = await invoke(workspace.service, id)
    expect([body.code, body.detail]).toEqual(['function_out_of_memory', expect.stringContaining('64 MB')])
    const refused = await configure(513)
    expect([refused.status, refused.body.errors[0].pointer]).toEqual([400, '/memory_mb'])
  })

  test('memory limit: usage within it: not terminated', async () => {
    const reply = await run('export default () => new Uint8Array(100 << 20).fill(1).length')
    expect(reply.body).toBe(104857600)
  })

  test('output limit: result too large: refused', async () => {
    const reply = await run('export default () => "x".repeat(2 ** 20)')
    expect([reply.status, reply.body.code]).toEqual([502, 'function_output_too_large'])
    const fits = await run('export default () => "x".repeat(2 ** 20 - 2)')
    expect(fits.body).toHaveLength(2 ** 20 - 2)
  })
})

describe('forged output', () => {
  test.each([
    [
      'text on stdout',
      'console.table([1]); (Deno as any).stdout?.writeSync(new TextEncoder().encode("hello\\nready 2.0.0\\n"))',
    ],
    [
      'frame with a guessed nonce',
      `(Deno as any).stdout?.writeSync(new TextEncoder().encode("\\n${'0'.repeat(32)} result 4\\nfake"))`,
    ],
    ['half a megabyte', '(Deno as any).stdout?.writeSync(new Uint8Array(500_000))'],
    [
      'writer closed afterwards',
      'Object.defineProperty(globalThis, "Deno", { value: undefined }); JSON.stringify = () => "fake"',
    ],
  ])('forged output: %s: ignored, the real result is returned', async (_name, statement) => {
    const reply = await run(`export default () => { ${statement}; return { real: true } }`)
    expect([reply.status, reply.body]).toEqual([200, { real: true }])
  })

  test('forged output: endless stdout or stderr: terminated', async () => {
    for (const stream of ['stdout', 'stderr']) {
      const reply = await run(
        `const b = new Uint8Array(65_536).fill(65)\nexport default () => { for (;;) Deno.${stream}.writeSync(b) }`,
      )
      expect([reply.status, reply.body.code]).toEqual([502, 'function_error'])
    }
  })
})

/** Deployment refuses imports of literals, so they are none here. */
const attemptSource = (body: string) =>
  `export default async (input: any) => { try { ${body.replaceAll(/import\((["'][^"']+["'])/g, 'import(String($1)')} } catch (e) { return 'denied: ' + (e as Error).name } }`

describe('isolation from the host', () => {
  test.each([
    ['file', 'return Deno.readTextFileSync("/etc/passwd")'],
    ['file by node:fs', 'return (await import("node:fs")).readFileSync("/etc/passwd", "utf8")'],
    ['folder', 'return [...Deno.readDirSync("/")].length'],
    [
      'file imported as a module',
      'return (await import("file:///etc/passwd", { with: { type: "text" } } as any)).default',
    ],
    [
      'file imported as JSON',
      'return (await import("file:///proc/self/status", { with: { type: "json" } })).default',
    ],
    [
      'file by require',
      'return (await import("node:module")).createRequire("file:///x.js")("/etc/hostname")',
    ],
    [
      'file by a database',
      'const { DatabaseSync } = await import("node:sqlite"); return new DatabaseSync("/tmp/x.db") && "open"',
    ],
    ['writing', 'Deno.writeTextFileSync("/tmp/tenon-written", "x"); return "written"'],
    [
      'folder by WASI',
      'const { WASI } = await import("node:wasi"); new WASI({ version: "preview1", preopens: { "/": "/tmp" } } as any); return "open"',
    ],
    ['environment', 'return Deno.env.toObject()'],
    ['environment by Node', 'return JSON.stringify((await import("node:process")).default.env)'],
    ['command', 'return new Deno.Command("/bin/id").outputSync().code'],
    ['command by Node', 'return (await import("node:child_process")).execSync("id").toString()'],
    ['signal to the parent process', 'return Deno.kill(Deno.ppid, "SIGKILL")'],
    ['native library', 'return Deno.dlopen("/lib/x86_64-linux-gnu/libc.so.6", {})'],
    ['API of the platform', 'return (await fetch(input.url)).status'],
    ['socket', 'await Deno.connect({ hostname: "127.0.0.1", port: input.port }); return "open"'],
    ['server', 'Deno.serve({ port: 0 }, () => new Response("x")); return "serving"'],
    ['DNS lookup', 'return await Deno.resolveDns("example.com", "A")'],
    ['module from the network', 'return await import("https://example.com/x.js")'],
    ['package', 'return await import("npm:chalk")'],
    [
      'permission request',
      'const { state } = await Deno.permissions.request({ name: "read" }); if (state !== "granted") throw new Error(state)',
    ],
    ['localStorage', 'localStorage.setItem("a", "b"); return "kept"'],
    ['cache', 'await caches.open("x"); return "open"'],
    ['host information', 'return (await import("node:os")).hostname()'],
  ])('isolation: %s: denied', async (_name, body) => {
    const { url } = inject('tenon')
    const reply = await run(attemptSource(body), { input: { url, port: Number(new URL(url).port) } })
    expect(reply.status, JSON.stringify(reply.body)).toBe(200)
    expect(reply.body).toMatch(/^denied: /)
  })

  test.each([
    ['text', 'import x from "file:///etc/passwd" with { type: "text" }\nexport default () => x'],
    ['json', 'import x from "file:///etc/passwd" with { type: "json" }\nexport default () => x'],
    ['code', 'export { default } from "file:///etc/passwd"'],
    ['path without a scheme', 'import x from "/etc/passwd" with { type: "text" }\nexport default () => x'],
    ['network address', 'import x from "https://example.com/x.js"\nexport default () => x'],
  ])('isolation: static import of %s: refused at deployment', async (_name, source) => {
    const reply = await run(source, { config: { timeout: '3s' } })
    expect(reply.status).toBe(422)
    expect(JSON.stringify(reply.body)).not.toContain('root:')
    expectNoHostDetails(reply)
  })

  test('isolation: network access: the error says that functions have no network', async () => {
    const reply = await run('export default () => Deno.connect({ hostname: "127.0.0.1", port: 8080 })')
    expect(reply.body).toMatchObject({ code: 'function_error', error: { line: 1 } })
    expect(reply.body.detail).toBe(
      'Requires net access: functions have no files, environment or processes, and no network but fetch.',
    )
  })

  const COUNTER = attemptSource('const g = globalThis as any; g.count = (g.count ?? 0) + 1; return g.count')

  test('isolation: state of globals: kept at most within a version', async () => {
    const counts = async (name: string, deployments: number) => {
      const results: number[] = []
      for (let n = 0; n < deployments; n++) {
        const made = await call('POST', '/v1/functions', {
          as: workspace.operator,
          body: { workspace_id: workspace.workspaceId, name, source: `${COUNTER}\n// ${n}` },
        })
        const reply = await call('POST', `/v1/functions/${made.body.id}/invoke`, {
          ...{ as: workspace.service, body: {} },
        })
        results.push(reply.body)
      }
      return results
    }
    expect(await counts('counts', 3)).toEqual([1, 1, 1])
    expect(await counts('counts-too', 1)).toEqual([1])
  })

  test('import of tenon: is the only import that is there', async () => {
    const reply = await run(
      'import { env, log, secrets, tenon } from "tenon"\nexport default () => [typeof log, Object.keys(env), Object.keys(secrets), Object.keys(tenon)]',
    )
    expect(reply.body).toEqual([
      'function',
      [],
      [],
      ['collections', 'objects', 'events', 'functions', 'flows', 'batch'],
    ])
  })
})
