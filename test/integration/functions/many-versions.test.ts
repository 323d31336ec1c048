/** One function that is deployed again and again: versions, processes and memory stay bounded. */

import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { promisify } from 'node:util'
import { beforeAll, expect, inject, test } from 'vitest'
import { FUNCTION_LIMITS } from '../../../src/features/functions/limits.ts'
import { residentMb } from '../../support/clients/resident-memory.ts'
import { deployed, resultOf } from '../../support/fixtures/functions.ts'
import { asSuperuser, call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { repeated } from '../../support/stack/soak.ts'

const { countMax, bytesMax } = FUNCTION_LIMITS.versions
const DEPLOYMENTS = repeated(120, 1_000)
/** Versions that are called: more than there may be processes. */
const CALLED = repeated(54, 500)
const PROCESSES_MAX =
  FUNCTION_LIMITS.sandbox.idleProcessesMax +
  FUNCTION_LIMITS.warmProcesses +
  availableParallelism() * FUNCTION_LIMITS.slotsPerCore
/** Other test files use the same worker. The code of all versions is some kilobytes, a process has some 25 MB of its own. */
const GROWTH_MAX_MB = 200

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const deploy = (name: string, n: number) => deployed(workspace, `export default () => ${n}`, {}, name)
const alias = (id: string, name: string, version: number) =>
  call('PUT', `/v1/functions/${id}/aliases/${name}`, { as: workspace.operator, body: { version } })

async function versionsOf(id: string): Promise<number[]> {
  const statement = 'select version from tenon.function_versions where function_id = $1 order by version'
  return (await asSuperuser<{ version: number }>(statement, [id])).map(({ version }) => version)
}

test(`${DEPLOYMENTS} deployments, ${CALLED} of them called: the newest ${countMax} and a named one are kept, processes end`, async () => {
  const worker = await workerPid()
  const beforeMb = await residentMb(worker)
  const id = await deploy('often', 1)
  await alias(id, 'first', 1)
  for (let n = 2; n <= DEPLOYMENTS; n++) {
    await deploy('often', n)
    if (n > DEPLOYMENTS - 2 * CALLED && n % 2 === 0) expect(await resultOf(workspace.service, id)).toBe(n)
  }
  const newest = Array.from({ length: countMax }, (_, n) => DEPLOYMENTS - countMax + 1 + n)
  expect(await versionsOf(id)).toEqual([1, ...newest])
  expect(await resultOf(workspace.service, 'often@first')).toBe(1)
  const dropped = await call('POST', `/v1/functions/${id}/invoke?version=2`, {
    as: workspace.service,
    body: {},
  })
  expect(dropped.status).toBe(404)
  expect(await processesOf(worker)).toBeLessThanOrEqual(PROCESSES_MAX)
  expect((await residentMb(worker)) - beforeMb).toBeLessThan(GROWTH_MAX_MB)
})

test(`versions of more than ${bytesMax / 1_048_576} MiB together: the oldest are dropped, except a named one`, async () => {
  const id = await deploy('large', 1)
  for (const n of [2, 3, 4, 5]) await deploy('large', n)
  await alias(id, 'first', 1)
  const half = bytesMax / 2
  // With the next version, which is as small as these, 5 and 4 have as many bytes as are kept.
  await asSuperuser(
    `update tenon.function_versions set bytes = case version when 5 then ${half} when 4 then ${half} - bytes else bytes end
     where function_id = $1`,
    [id],
  )
  await deploy('large', 6)
  expect(await versionsOf(id)).toEqual([1, 4, 5, 6])
  expect(await resultOf(workspace.service, 'large@first')).toBe(1)
})

/** The worker of the common platform, by the files of proc(5). */
async function workerPid(): Promise<number> {
  const valkey = `REDIS_URL=${inject('tenon').env['REDIS_URL']}\0`
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const [command = '', env = ''] = await Promise.all(
      ['cmdline', 'environ'].map((file) => readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '')),
    )
    if (/^\S*node\0.*worker/.test(command) && env.includes(valkey)) return Number(pid)
  }
  throw new Error('no worker')
}

/** The number of processes for functions that a worker has. */
async function processesOf(worker: number): Promise<number> {
  const { stdout } = await promisify(execFile)('ps', ['--ppid', String(worker), '-o', 'args='], {
    maxBuffer: 1 << 24,
  })
  return stdout.split('\n').filter((line) => line.includes('--deny-net')).length
}
