/**
 * Measures what the number of workspaces costs: the creation of one, and the start and the memory of the API, at 20 and at 2,000
 * workspaces with a bucket each; and one creation beside a bare workflow and the requests to the object store that it makes.
 */

import { readFile } from 'node:fs/promises'
import type { Started } from '../../test/support/stack/start.ts'
import { openBareCreation } from '../bare-creation.ts'
import { createTestWorkspace, type TestWorkspace } from '../fixture.ts'
import { print, sized } from '../measure.ts'

const FEW = sized(20, 2)
const MANY = sized(2_000, 6)
const MEASURED = sized(15, 1)
const LANES = 4

export async function workspaces(started: Started): Promise<void> {
  const of = await createTestWorkspace(started.running)
  let count = 1
  const create = async () => {
    count += 1
    const slug = `w${count}`
    const headers = { prefer: 'wait=30' }
    const body = { tenant_id: of.tenantId, name: slug, slug, bucket: `bench-${slug}-${process.pid}` }
    const { state } = await of.admin.call<{ state: string }>('POST', '/v1/workspaces', body, headers)
    if (state !== 'active') throw new Error(`The workspace ${slug} is ${state}.`)
  }
  await fill(create, () => count < FEW)
  const atFew = await figuresAt(started, of, create)
  const bare = await bareMs(started)
  await fill(create, () => count < MANY)
  const atMany = await figuresAt(started, of, create)
  print('\nworkspaces', 'creation ms', 'API start ms', 'API MiB', 'store MiB')
  print(`${FEW}`, atFew.createMs, atFew.startMs, atFew.apiMiB, atFew.storeMiB)
  print(`${count}`, atMany.createMs, atMany.startMs, atMany.apiMiB, atMany.storeMiB)
  print(
    'ratio',
    ...(['createMs', 'startMs', 'apiMiB', 'storeMiB'] as const).map((name) => atMany[name] / atFew[name]),
  )
  print('\none creation', 'p50 ms', '× bare')
  print('bare workflow of two activities, and the requests to the store', bare, 1)
  print('workspace', atFew.createMs, atFew.createMs / bare)
}

async function fill(create: () => Promise<void>, isWanted: () => boolean): Promise<void> {
  const lane = async () => {
    while (isWanted()) await create()
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}

async function figuresAt({ stack }: Started, of: TestWorkspace, create: () => Promise<void>) {
  const createMs = await medianMs(create)
  const startMs = await medianMs(
    async () => {
      await stack.supervisor.restart('api')
      await of.admin.get('/v1/me')
    },
    sized(3, 1),
  )
  const apiMiB = await residentMiB(stack.supervisor.pid('api'))
  return { createMs, startMs, apiMiB, storeMiB: await residentMiB(stack.supervisor.pid('seaweedfs')) }
}

/** A workflow with as many activities, and what the platform asks of the store for a new bucket. */
async function bareMs({ running }: Started): Promise<number> {
  const bare = await openBareCreation(running)
  const ms = await medianMs(() => bare.run())
  await bare.close()
  return ms
}

async function medianMs(work: () => Promise<void>, rounds = MEASURED): Promise<number> {
  const times: number[] = []
  for (let round = 0; round < rounds; round++) {
    const startedMs = performance.now()
    await work()
    times.push(performance.now() - startedMs)
  }
  return times.toSorted((a, b) => a - b)[Math.floor(rounds / 2)] ?? Number.NaN
}

async function residentMiB(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? Number.NaN) / 1_024
}
