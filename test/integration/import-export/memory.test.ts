/** Imports and exports buffer one chunk or page at a time: memory of a separate API process, as the kernel reports it. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { currentBuild } from '../../../src/cli/stack/build.ts'
import { Ports } from '../../../stack/ports.ts'
import { exported, importInto, lines, openImport } from '../../support/clients/ndjson.ts'
import { forgetPeak, peakMb, residentMb } from '../../support/clients/resident-memory.ts'
import {
  asSuperuser,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { repeated } from '../../support/stack/soak.ts'
import type { Running } from '../../support/stack/start.ts'

let workspace: TestWorkspace
let api: ChildProcess
let at: Running

beforeAll(async () => {
  const running = inject('tenon')
  const port = await new Ports({ remembered: {}, any: true }).take('api', 0)
  at = { ...running, url: `http://127.0.0.1:${port}` }
  const env = { ...process.env, ...running.env, TENON_PORT: String(port) }
  const build = await currentBuild()
  api = spawn(process.execPath, [`--max-old-space-size=${HEAP_MAX_MB}`, build.api], { env, stdio: 'ignore' })
  workspace = await createTestWorkspace()
  await eventually(async () => {
    const ready = await fetch(`${at.url}/readyz`).catch(() => undefined)
    return ready?.status === 200 ? true : undefined
  }, 60_000)
})

afterAll(async () => {
  api.kill('SIGTERM')
})

/** Growth of the peak memory above the initial value. */
async function growthMb(work: () => Promise<void>): Promise<number> {
  const pid = api.pid ?? 0
  await forgetPeak(pid)
  const before = await residentMb(pid)
  await work()
  return (await peakMb(pid)) - before
}

const count = (to: number) => Array.from({ length: to }, (_, n) => ({ n }))

/**
 * The test shows that memory does not grow with the stream. The amount of garbage on a busy machine depends on the
 * engine, so the heap is limited: an API that kept the stream on the heap would crash, and one that kept it in buffers
 * would grow by the size of the stream.
 */
const HEAP_MAX_MB = 192
const STREAM_MB = repeated(180, 360)
const GROWTH_MAX_MB = 120

test('memory: import of 60,000 lines and hundreds of MB: bounded', async () => {
  const as = workspace.service
  const name = unique('many')
  await importInto(name, lines(...count(20_000)), { as, at })
  // White space, which the API has to read but the database does not store.
  const padding = ' '.repeat((STREAM_MB * 1_048_576) / 60_000)
  const piece = count(200)
    .map(({ n }) => `{"n":${n}}${padding}\n`)
    .join('')
  const growth = await growthMb(async () => {
    const { sent, reply } = openImport(name, { as, at })
    for (let n = 0; n < 300; n++) if (!sent.write(piece)) await once(sent, 'drain')
    sent.end()
    expect((await reply).body).toMatchObject({ lines: 60_000, created: 60_000 })
  })
  expect(growth).toBeLessThan(GROWTH_MAX_MB)
  const exporting = await growthMb(async () => {
    expect(await exported(name, { as, at })).toHaveLength(80_000)
  })
  expect(exporting).toBeLessThan(GROWTH_MAX_MB)
})

test('memory: import of 6,000 rows of CSV and hundreds of MB: bounded', async () => {
  // Rows with a cell too many, which the API has to read but does not store.
  const padding = ' '.repeat((STREAM_MB * 1_048_576) / 6_000)
  const piece = count(20)
    .map(({ n }) => `${n},${padding}\n`)
    .join('')
  const growth = await growthMb(async () => {
    const headers = { 'content-type': 'text/csv' }
    const { sent, reply } = openImport(unique('rows'), { as: workspace.service, headers, at })
    sent.write('n\n0\n')
    for (let n = 0; n < 300; n++) if (!sent.write(piece)) await once(sent, 'drain')
    sent.end()
    expect((await reply).body).toMatchObject({ lines: 6_002, created: 1, failed: 6_000 })
  })
  expect(growth).toBeLessThan(GROWTH_MAX_MB)
})

test('memory: export of hundreds of MB to a fast and a slow reader: bounded', async () => {
  const name = unique('large')
  await asSuperuser(
    `insert into tenon.documents (tenant_id, workspace_id, collection, id, data)
     select $1, $2, $3, gen_random_uuid(), jsonb_build_object('x', repeat('x', 100000))
     from generate_series(1, $4)`,
    [workspace.tenantId, workspace.workspaceId, name, STREAM_MB * 10],
  )
  const open = () =>
    new Promise<IncomingMessage>((resolve, reject) => {
      get(`${at.url}/v1/collections/${name}/export`, { headers: workspace.service }, resolve).on(
        'error',
        reject,
      )
    })
  const fast = await growthMb(async () => {
    let bytes = 0
    for await (const chunk of await open()) bytes += chunk.length
    expect(bytes).toBeGreaterThan(STREAM_MB * 1_000_000)
  })
  expect(fast).toBeLessThan(GROWTH_MAX_MB)
  const slow = await growthMb(async () => {
    const response = await open()
    let bytes = 0
    await eventually(async () => {
      bytes += response.read()?.length ?? 0
      return bytes > 6_000_000 ? true : undefined
    }, 60_000)
    response.destroy()
  })
  expect(slow).toBeLessThan(GROWTH_MAX_MB)
})
