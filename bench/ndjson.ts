/** A soak: imports and exports a million small lines, and checks the memory of the API process. */

import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { forgetPeak, peakMb, residentMb } from '../test/support/clients/resident-memory.ts'
import { startPlatform } from '../test/support/stack/start.ts'
import { createTestWorkspace, type TestWorkspace } from './fixture.ts'
import { print, sized } from './measure.ts'

const LINES = sized(1_000_000, 20_000)

export async function ndjson(): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'tenon-bench-'))
  const { running, stack, stop } = await startPlatform(dir)
  try {
    const workspace = await createTestWorkspace(running)
    const pid = stack.supervisor.pid('api') ?? 0
    await send(workspace, 'warm', linesTo(20_000))
    print(`${LINES} lines`, 's', 'MiB before', 'MiB peak', 'MiB after')
    await measured('import', pid, () => send(workspace, 'soak', linesTo(LINES)))
    await measured('the same file again', pid, () => send(workspace, 'soak', linesTo(LINES)))
    await measured('export', pid, () => receive(workspace, 'soak'))
  } finally {
    await stop()
    await rm(dir, { recursive: true, force: true })
  }
}

/** Prints how long work takes, and the memory of a process before, at its peak, and after. @returns seconds */
export async function measured(what: string, pid: number, work: () => Promise<void>): Promise<number> {
  await forgetPeak(pid)
  const before = await residentMb(pid)
  const startedMs = performance.now()
  await work()
  const seconds = (performance.now() - startedMs) / 1_000
  print(what, seconds, String(before), String(await peakMb(pid)), String(await residentMb(pid)))
  return seconds
}

export function* linesTo(count: number): Generator<string> {
  for (let from = 0; from < count; from += 1_000) {
    const numbers = Array.from({ length: Math.min(1_000, count - from) }, (_, n) => from + n)
    yield numbers.map((n) => `{"n":${n},"title":"line ${n}","done":${n % 2 === 0}}\n`).join('')
  }
}

/** Imports lines into a collection of their own. @throws Error if a line was neither stored nor there already */
export async function send(workspace: TestWorkspace, name: string, lines: Iterable<string>): Promise<void> {
  const headers = {
    apikey: workspace.apikey,
    'content-type': 'application/x-ndjson',
    'idempotency-key': name,
  }
  const sent = request(`${workspace.url}/v1/collections/${name}/import`, { method: 'POST', headers })
  const reply = new Promise<string>((resolve, reject) => {
    sent.on('error', reject)
    sent.on('response', (response) => {
      text(response).then(resolve, reject)
    })
  })
  await pipeline(Readable.from(lines), sent)
  const report = JSON.parse(await reply) as { lines?: number; created: number; existing: number }
  if (report.lines !== report.created + report.existing) throw new Error(await reply)
}

async function receive({ url, apikey }: TestWorkspace, name: string): Promise<void> {
  const { body } = await fetch(`${url}/v1/collections/${name}/export`, { headers: { apikey } })
  let lines = 0
  for await (const chunk of body ?? []) for (const byte of chunk) if (byte === 0x0a) lines += 1
  if (lines !== LINES) throw new Error(`${lines} lines came out`)
}
