/** The function runtime by itself: missing or wrong Deno, cleanup of processes, and frames in pieces. */

import { execFile } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { FUNCTION_LIMITS } from '../../../src/features/functions/limits.ts'
import { FrameReader } from '../../../src/features/functions/sandbox/frames.ts'
import { RawOutput } from '../../../src/features/functions/sandbox/output-lines.ts'
import { Functions } from '../../../src/features/functions/sandbox/process-pool.ts'
import { testHost, testInvocation } from '../../support/fixtures/invocations.ts'
import { eventually } from '../../support/fixtures/tenants.ts'

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tenon-functions-'))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

const job = (compiled: string, timeoutMs = 2_000, signal = new AbortController().signal) =>
  testInvocation(compiled, { timeoutMs, signal, memoryMb: 64 })

describe('function runtime: without a usable Deno', () => {
  test.each([
    ['none', undefined, /there is no Deno/],
    ['a path to nothing', '#!/none', /does not start/],
    [
      'one that is old',
      '#!/bin/sh\necho "ready 1.46.3"; sleep 5',
      /Deno 2 is required, but this is Deno 1\.46\.3/,
    ],
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
      code: expect.stringMatching(/^(run_cut_off|functions_unavailable)$/),
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
    expect(limits).toMatch(/Max cpu time +1800 +1800/)
    expect(limits).toMatch(/Max core file size +0 +0/)
    expect(limits).toMatch(/Max processes +256 +256/)
    await expect(running).rejects.toMatchObject({ code: 'function_timeout' })
    await functions.close()
    expect(await limitsOfChildren()).toEqual([])
  })

  test('many runs of a tenant at once: those beyond their share of the slots get what processor time others leave', async () => {
    const functions = real()
    const stop = new AbortController()
    const slots = availableParallelism() * FUNCTION_LIMITS.slotsPerCore
    const { usualShare, niceness } = FUNCTION_LIMITS.sandbox
    const usual = Math.ceil(slots * usualShare)
    const start = (tenant: string) => {
      const host = testHost({ log: ({ text }) => void begun.push(text) })
      const code = 'export default () => { console.log("begun"); return new Promise(() => {}) }'
      const of = { key: `${tenant}:ws:fn:1`, timeoutMs: 60_000, signal: stop.signal, memoryMb: 64, host }
      const running = functions.run(testInvocation(code, of))
      running.catch(() => {})
      return running
    }
    const begun: string[] = []
    const loud = Array.from({ length: usual + 2 }, () => start('ten_loud'))
    await eventually(async () => begun.length === usual + 2 || undefined, 60_000)
    const quiet = start('ten_quiet')
    await eventually(async () => begun.length === usual + 3 || undefined, 60_000)
    const found = await Promise.all((await pidsOfChildren()).map(nicenessOf))
    const priorities = found.map(({ process, session }) => [process, session ?? process])
    expect(priorities.toSorted()).toEqual(
      [...Array(usual + 1).fill(niceness.usual), niceness.beyond, niceness.beyond]
        .map((n) => [n, n])
        .toSorted(),
    )
    stop.abort()
    await Promise.allSettled([...loud, quiet])
    await functions.close()
  })
})

/** The niceness of a process, and of its session where the kernel groups processes by session. */
async function nicenessOf(pid: string) {
  const [stat, group] = await Promise.all([
    readFile(`/proc/${pid}/stat`, 'utf8'),
    readFile(`/proc/${pid}/autogroup`, 'utf8').catch(() => ''),
  ])
  const session = /nice (-?\d+)/.exec(group)?.[1]
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { process: Number(fields[16]), session: session && Number(session) }
}

/** Among the runtime's processes that are children of this one. */
async function limitsOfChildren(): Promise<string[]> {
  const pids = await pidsOfChildren()
  const limits = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/limits`, 'utf8').catch(() => '')))
  return limits.filter((text) => text !== '')
}

async function pidsOfChildren(): Promise<string[]> {
  const { stdout } = await promisify(execFile)('ps', ['-eo', 'pid=,ppid=,args='], { maxBuffer: 1 << 24 })
  const all = stdout.split('\n').map((line) => /^ *(\d+) +(\d+) (.*)$/.exec(line) ?? [])
  const children = (parents: readonly string[]) =>
    all.filter(([, , ppid = '', args = '']) => parents.includes(ppid) && args.includes('--deny-net'))
  const pidsOf = (found: readonly (readonly string[])[]) => found.map(([, pid = '']) => pid)
  const direct = children([String(process.pid)])
  // The sandbox itself has no limits: its child, which is the runtime, has.
  const isSandbox = ([, , , args = '']: readonly string[]) => /^\S*(bwrap|unshare) /.test(args)
  return pidsOf([...direct.filter((each) => !isSandbox(each)), ...children(pidsOf(direct.filter(isSandbox)))])
}

describe('function runtime: frames', () => {
  const nonce = Buffer.from('0123456789abcdef')
  const head = (kind: string, id: number, json: number, bytes: number) => {
    const sizes = Buffer.alloc(12)
    for (const [at, value] of [id, json, bytes].entries()) sizes.writeUInt32BE(value, at * 4)
    return Buffer.concat([nonce, Buffer.from(kind), sizes])
  }
  const read = (received: Buffer, size: number) => {
    const reader = new FrameReader(nonce)
    const outputs: unknown[] = []
    let noise = ''
    for (let at = 0; at < received.length; at += size)
      for (const output of reader.take(received.subarray(at, at + size))) {
        if ('noise' in output) noise += output.noise.toString()
        else if ('broken' in output) outputs.push(output.broken)
        else outputs.push([output.frame.kind, output.frame.id, output.frame.json.toString()])
      }
    return { outputs, noise }
  }

  test.each([1, 2, 7, 30, 1_000])(
    'arrive complete in pieces of %d bytes, output of the code between them',
    (size) => {
      const json = Buffer.from('{"a":"é"}')
      const frame = Buffer.concat([head('r', 7, json.length, 0), json])
      const forged = Buffer.from('fedcba9876543210r0123456789abcd')
      const { outputs, noise } = read(Buffer.concat([forged, frame, Buffer.from('more'), frame, nonce]), size)
      expect(outputs).toEqual([
        ['result', 7, '{"a":"é"}'],
        ['result', 7, '{"a":"é"}'],
      ])
      // The begin of a frame may follow, so that the last bytes are held back.
      expect(`${forged}more`).toContain(noise)
      expect(noise.length).toBeGreaterThan(31)
    },
  )

  test.each([
    ['an unknown kind', head('Z', 1, 0, 0), 'malformed'],
    ['a kind that is a member of all objects', head('_', 1, 0, 0), 'malformed'],
    ['a length of 4 GB', head('c', 1, 2 ** 32 - 1, 0), 'malformed'],
    ['bytes in a frame without', head('h', 1, 0, 1), 'malformed'],
    ['a result that is too large', head('r', 1, 1_048_577, 0), 'too_large'],
    ['a line of a megabyte', head('l', 0, 4, 1_048_576), 'malformed'],
  ])('%s: is refused before it is stored', (_name, bytes, broken) => {
    expect(read(bytes, 65_536).outputs).toEqual([broken])
  })

  test('output of the engine when it crashes: is not logged', () => {
    const lines: string[] = []
    const output = new RawOutput((text) => lines.push(text))
    output.take(
      Buffer.from(
        'mine\n\n<--- Last few GCs --->\n\n/opt/deno(+0x1) [0x2]\n# Fatal JavaScript out of memory: heap limit\n',
      ),
    )
    expect(lines).toEqual(['mine'])
    expect(output.ranOutOfMemory).toBe(true)
  })
})
