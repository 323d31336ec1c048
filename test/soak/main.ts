/**
 * `npm run test:soak [-- NAME...]`: runs every benchmark once to check that it works, the whole suite without the patches of the
 * Temporal SDK and with the repetitions of a soak, then the kill drill. Prints a line per part; exits with 1 if one failed.
 * `npm run test:soak -- uploads` lets a page in Chromium upload a file through restarts of the API; TENON_UPLOAD_BYTES is its size.
 * `npm run test:soak -- deletion` deletes a workspace with a thousand executions, others while the disk is full, and cuts purges off at each step (test/soak/deletion).
 * `npm run test:soak -- slow` runs the suite as on a slow machine: busy loops take half of every core.
 * `npm run test:soak -- kills [--seed N] [--minutes M]` runs the kill drill alone (test/soak/kills), which prints its counts.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, mkdtemp } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

interface Part {
  readonly name: string
  /** Arguments of Node. */
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** A part that takes longer is ended and has failed. */
  readonly maxMinutes: number
  /** Runs beside as many busy loops as there are cores, and only if it is named. */
  readonly isSlow?: true
  /** Its output is printed as well. */
  readonly isPrinted?: true
}

const SURFACE = ['collections', 'schemas', 'quotas', 'events', 'functions', 'flows', 'mcp']
const BENCHES = [
  ...[
    'smoke',
    'auth',
    'changes',
    'client',
    'collections',
    'relations',
    'rules',
    'ndjson',
    'expressions',
    'flows-dsl',
    'flows',
    'function-processes',
    'lifecycle',
    'objects',
    'infrastructure',
  ],
  ...SURFACE.map((part) => `surface ${part}`),
]
/** Time for a part that was ended to end its servers. */
const GRACE_MS = 20_000

/** The default seed differs from day to day, so that soaks do not repeat one order of kills. */
const { values: options, positionals: names } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Math.floor(Date.now() / 86_400_000)) },
    minutes: { type: 'string', default: '3' },
  },
  allowPositionals: true,
})

const SUITE = ['node_modules/vitest/vitest.mjs', 'run']

const PARTS: readonly Part[] = [
  ...BENCHES.map((name) => ({
    name: `bench ${name}`,
    args: ['bench/main.ts', ...name.split(' ')],
    env: { BENCH_ONCE: '1' },
    maxMinutes: 5,
  })),
  {
    name: 'suite',
    args: SUITE,
    env: { TENON_SOAK: '1', TENON_SDK_PATCHES: 'off' },
    maxMinutes: 90,
  },
  {
    name: 'kills',
    args: [...SUITE, '--config', 'vitest.soak.config.ts', 'test/soak/kills'],
    env: { TENON_KILLS_SEED: options.seed, TENON_KILLS_MINUTES: options.minutes },
    maxMinutes: Number(options.minutes) + 30,
    isPrinted: true,
  },
  {
    name: 'uploads',
    args: [...SUITE, '--config', 'vitest.soak.config.ts', 'test/soak/uploads'],
    env: {},
    maxMinutes: 40,
    isPrinted: true,
  },
  {
    name: 'deletion',
    args: [...SUITE, '--config', 'vitest.soak.config.ts', 'test/soak/deletion'],
    env: {},
    maxMinutes: 60,
    isPrinted: true,
  },
  { name: 'slow', args: SUITE, env: {}, maxMinutes: 60, isSlow: true },
]

/** Takes half of every core until it is stopped. @returns stops it */
function keepBusy(): () => void {
  const loops = Array.from({ length: availableParallelism() }, () =>
    spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
  )
  const stop = () => {
    for (const loop of loops) loop.kill('SIGKILL')
  }
  process.once('exit', stop)
  return stop
}

/** @returns why the part failed; undefined if it did not */
async function run({ args, env, maxMinutes, isPrinted }: Part, logFile: string): Promise<string | undefined> {
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      void appendFile(logFile, chunk)
      if (isPrinted) process.stdout.write(chunk)
    })
  const timers = [
    setTimeout(() => child.kill('SIGTERM'), maxMinutes * 60_000),
    setTimeout(() => child.kill('SIGKILL'), maxMinutes * 60_000 + GRACE_MS),
  ]
  const startedMs = performance.now()
  const [code] = await once(child as ChildProcess, 'exit')
  for (const timer of timers) clearTimeout(timer)
  if (performance.now() - startedMs >= maxMinutes * 60_000) return `it did not end within ${maxMinutes} min`
  return code === 0 ? undefined : `it ended with ${code}`
}

async function main(): Promise<number> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-soak-'))
  const parts = PARTS.filter(({ name, isSlow }) =>
    names.length === 0 ? isSlow === undefined : names.some((part) => name.includes(part)),
  )
  let failures = 0
  for (const part of parts) {
    const logFile = join(dir, `${part.name.replaceAll(' ', '-')}.log`)
    const startedMs = performance.now()
    const stop = part.isSlow === undefined ? undefined : keepBusy()
    const reason = await run(part, logFile)
    stop?.()
    if (reason !== undefined) failures += 1
    const seconds = Math.round((performance.now() - startedMs) / 1_000)
    console.log(
      `${reason === undefined ? 'ok    ' : 'FAILED'} ${part.name} (${seconds} s)${reason === undefined ? '' : `: ${reason}, see ${logFile}`}`,
    )
  }
  return failures === 0 && parts.length > 0 ? 0 : 1
}

process.exitCode = await main()
