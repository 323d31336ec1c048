/**
 * Bodies of functions are streamed: memory of a separate API process and of Valkey, as the kernel reports it. At last, that
 * process dies.
 */

import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { forgetPeak, peakMb, residentMb } from '../../support/clients/resident-memory.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { type ApiProcess, startApi } from '../../support/stack/api-process.ts'

const BODY_MB = 50
/**
 * 100 MB pass through the API process, which grows by some 60 MB of garbage; it would grow by 50 more if it kept one body.
 * Valkey makes no garbage.
 */
const GROWTH_MAX_MB = { api: 90, valkey: 16 }
const MIB = 1_048_576

let workspace: TestWorkspace
let api: ApiProcess
beforeAll(async () => {
  api = await startApi({})
  workspace = await createTestWorkspace()
  await deploy('echo', 'export const fetch = (request) => new Response(request.body)')
  await deploy('endless', 'export const fetch = () => new Response(new ReadableStream({}))')
})
afterAll(() => api.stop())

async function deploy(name: string, source: string): Promise<void> {
  const body = { workspace_id: workspace.workspaceId, name, source, config: { timeout: '60s' } }
  expect((await call('POST', '/v1/functions', { as: workspace.operator, body })).status).toBe(201)
}

/** Sends a body and reads it back. @returns the number of bytes */
async function echo(mb: number): Promise<number> {
  const url = `${api.at.url}/v1/functions/echo/http/`
  const sent = request(url, { method: 'POST', headers: { ...workspace.service }, agent: false })
  const chunk = Buffer.alloc(MIB, 'x')
  const send = async () => {
    for (let n = 0; n < mb; n++) if (!sent.write(chunk)) await once(sent, 'drain')
    sent.end()
  }
  const replied = once(sent, 'response') as Promise<[IncomingMessage]>
  const sending = send()
  const [response] = await replied
  let bytes = 0
  for await (const part of response) bytes += (part as Buffer).length
  await sending
  return bytes
}

test(`memory: ${BODY_MB} MB there and back: all of it arrives, and neither API nor Valkey keeps it`, async () => {
  // Compiles what a first request compiles.
  await echo(4)
  const pids = { api: api.process.pid ?? 0, valkey: await valkeyPid() }
  await Promise.all([forgetPeak(pids.api), forgetPeak(pids.valkey)])
  const before = { api: await residentMb(pids.api), valkey: await residentMb(pids.valkey) }
  expect(await echo(BODY_MB)).toBe(BODY_MB * MIB)
  expect((await peakMb(pids.valkey)) - before.valkey).toBeLessThan(GROWTH_MAX_MB.valkey)
  expect((await peakMb(pids.api)) - before.api).toBeLessThan(GROWTH_MAX_MB.api)
})

test('API process that dies: the code does not run on', async () => {
  const response = await fetch(`${api.at.url}/v1/functions/endless/http/`, {
    headers: { ...workspace.service },
  })
  const reading = response.text().catch(() => 'broken')
  api.process.kill('SIGKILL')
  expect(await reading).toBe('broken')
  const run = await eventually(async () => {
    const [row] = await asSuperuser<{ error: { code: string; detail: string } | null }>(
      'select error from tenon.function_runs where id = $1 and ended_at is not null',
      [response.headers.get('x-run-id')],
    )
    return row
  }, 20_000)
  expect(run.error).toMatchObject({ code: 'run_cut_off', detail: 'The connection of the client was lost.' })
})

/** The server that listens on the port of REDIS_URL, by the files of proc(5). */
async function valkeyPid(): Promise<number> {
  const { port } = new URL(api.at.env['REDIS_URL'] ?? '')
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    if (/valkey|redis/.test(command) && command.includes(port)) return Number(pid)
  }
  throw new Error('no Valkey')
}
