/** The function runtime by itself: missing or wrong Deno, cleanup of processes, and frames in pieces. */

import { execFile } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { Log, Reply } from '../../../src/features/functions/sandbox/process.ts'
import { Functions } from '../../../src/features/functions/sandbox/process-pool.ts'
import { eventually } from '../../support/fixtures/tenants.ts'

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tenon-functions-'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

const job = (compiled: string, timeoutMs = 2_000, signal = new AbortController().signal) => ({
  compiled,
  input: {},
  timeoutMs,
  memoryMb: 64,
  signal,
})

describe('function runtime: without a usable Deno', () => {
  test.each([
    ['none', undefined, /there is no Deno/],
    ['a path to nothing', '#!/none', /does not start/],
    ['one that is old', '#!/bin/sh\necho "ready 1.46.3"; sleep 5', /Deno 2 is needed, and this is 1\.46\.3/],
    ['one that says nothing sensible', '#!/bin/sh\necho hello; sleep 5', /does not start/],
    ['one that ends at once', '#!/bin/sh\nexit 1', /does not start/],
  ])('%s: every call is rejected, and nothing else happens', async (name, script, why) => {
    const path = join(dir, name.replaceAll(' ', '-'))
    if (script !== undefined && script !== '#!/none') {
      await writeFile(path, script)
      await chmod(path, 0o755)
    }
    const functions = new Functions(script === undefined ? undefined : path)
    await functions.warmUp()
    await expect(functions.run(job('export default () => 1'))).rejects.toMatchObject({
      code: 'functions_unavailable',
      detail: expect.stringMatching(why),
    })
    await functions.close()
  })
})

describe('function runtime: with Deno', () => {
  const real = () => new Functions(inject('tenon').env['TENON_DENO_BIN'])

  test('close: ends running and waiting calls', async () => {
    const functions = real()
    await functions.warmUp()
    const running = functions.run(job('export default () => new Promise(() => {})', 60_000))
    running.catch(() => {})
    await new Promise((done) => setTimeout(done, 300))
    await functions.close()
    // A busy machine may not have started its process by then.
    await expect(running).rejects.toMatchObject({
      code: expect.stringMatching(/^(function_error|functions_unavailable)$/),
    })
    await expect(functions.run(job('export default () => 1'))).rejects.toMatchObject({ code: 'run_cut_off' })
  })

  test('cancelled call: is terminated', async () => {
    const functions = real()
    const stop = new AbortController()
    const running = functions.run(job('export default () => { for (;;) {} }', 60_000, stop.signal))
    running.catch(() => {})
    await new Promise((done) => setTimeout(done, 300))
    stop.abort()
    await expect(running).rejects.toMatchObject({ code: 'run_cut_off' })
    await functions.close()
  })

  test('sandbox process: the kernel limits its CPU time and disables core dumps', async () => {
    const functions = real()
    const running = functions.run(job('export default () => new Promise(() => {})', 1_500))
    running.catch(() => {})
    const limits = await eventually(async () => (await limitsOfChildren())[0], 1_400)
    expect(limits).toMatch(/Max cpu time +120 +120/)
    expect(limits).toMatch(/Max core file size +0 +0/)
    expect(limits).toMatch(/Max processes +256 +256/)
    await expect(running).rejects.toMatchObject({ code: 'function_timeout' })
    await functions.close()
    expect(await limitsOfChildren()).toEqual([])
  })
})

/** Among the runtime's processes that are children of this one. */
async function limitsOfChildren(): Promise<string[]> {
  const { stdout } = await promisify(execFile)('ps', ['-eo', 'pid=,ppid=,args='], { maxBuffer: 1 << 24 })
  const all = stdout.split('\n').map((line) => /^ *(\d+) +(\d+) (.*)$/.exec(line) ?? [])
  const children = (parents: readonly string[]) =>
    all.filter(([, , ppid = '', args = '']) => parents.includes(ppid) && args.includes('--deny-net'))
  const pidsOf = (found: readonly (readonly string[])[]) => found.map(([, pid = '']) => pid)
  const direct = children([String(process.pid)])
  // The sandbox itself has no limits: its child, which is the runtime, has.
  const isSandbox = ([, , , args = '']: readonly string[]) => /^\S*(bwrap|unshare) /.test(args)
  const pids = pidsOf([
    ...direct.filter((each) => !isSandbox(each)),
    ...children(pidsOf(direct.filter(isSandbox))),
  ])
  const limits = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/limits`, 'utf8').catch(() => '')))
  return limits.filter((text) => text !== '')
}

describe('function runtime: frames', () => {
  const nonce = 'a'.repeat(32)
  const feed = (text: string, size: number) => {
    const reply = new Reply(nonce)
    const bytes = Buffer.from(text)
    for (let at = 0; at < bytes.length; at += size) {
      const heard = reply.take(bytes.subarray(at, at + size))
      if (heard !== undefined) return heard
    }
    return undefined
  }

  test.each([1, 2, 7, 1_000])('arrive complete in pieces of %d bytes', (size) => {
    const text = `noise\n${'b'.repeat(32)} result 1\n9\n${nonce} result 10\n{"a":"é"}`
    expect(feed(text, size)).toEqual({ kind: 'result', text: '{"a":"é"}' })
  })

  test.each([
    [`\n${nonce} result 99999999\n`, 'too_large'],
    [`\n${nonce} result -1\n`, 'too_large'],
    [`\n${nonce} result 1e3\n`, 'too_large'],
    [`\n${nonce} ${'x'.repeat(100)}`, 'too_loud'],
    ['x'.repeat(1_048_577), 'too_loud'],
    [`\n${nonce} result 5\n1234`, undefined],
  ])('malformed frame %.60s: is an error', (text, heard) => {
    expect(feed(text, 65_536)).toBe(heard)
  })

  test('output of the engine when it crashes: is not logged', () => {
    const log = new Log()
    log.add(
      Buffer.from(
        'mine\n\n<--- Last few GCs --->\n\n/opt/deno(+0x1) [0x2]\n# Fatal JavaScript out of memory: heap limit\n',
      ),
    )
    expect(log.lines()).toEqual(['mine'])
    expect(log.ranOutOfMemory).toBe(true)
  })
})
