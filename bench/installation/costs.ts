/** Measures the processor time that each process spends for a request, an event, a run, an execution and a tenant: its largest part saturates first. */

import { setTimeout as pause } from 'node:timers/promises'
import type { Started } from '../../test/support/stack/start.ts'
import { usedUs } from '../cpu.ts'
import { createTestWorkspace, type TestWorkspace } from '../fixture.ts'
import { print, sized } from '../measure.ts'

const PROCESSES = ['api', 'worker', 'postgres', 'temporal', 'valkey', 'seaweedfs'] as const
const LANES = 8
const IDLE_MS = sized(10_000, 100)
/** Work that goes on after a reply, such as the end of a workflow or the delivery of an event, is a part of its cost. */
const AFTER_MS = sized(3_000, 100)

interface Work {
  readonly count: number
  run(n: number): Promise<unknown>
}

export async function costs({ running, stack }: Started): Promise<void> {
  const workspace = await createTestWorkspace(running)
  const used = () => PROCESSES.map((name) => usedUs(stack.supervisor.pid(name)) / 1_000)
  const idle = await spentMs(used, () => pause(IDLE_MS))
  const idlePerMs = idle.spent.map((ms) => ms / idle.tookMs)
  print('\nms of the processor, without what idle processes use', ...PROCESSES, 'all')
  for (const [name, work] of Object.entries(await openWorks(workspace))) {
    await runAll({ ...work, count: Math.ceil(work.count / 10) })
    const { spent, tookMs } = await spentMs(used, async () => {
      await runAll(work)
      await pause(AFTER_MS)
    })
    const each = spent.map((ms, at) => Math.max(0, ms - (idlePerMs[at] ?? 0) * tookMs) / work.count)
    print(
      name,
      ...each,
      each.reduce((sum, ms) => sum + ms, 0),
    )
  }
}

async function spentMs(used: () => number[], work: () => Promise<unknown>) {
  const [before, startedMs] = [used(), performance.now()]
  await work()
  return { spent: used().map((ms, at) => ms - (before[at] ?? 0)), tookMs: performance.now() - startedMs }
}

/** In lanes, as several clients. */
async function runAll({ count, run }: Work): Promise<void> {
  let next = 0
  const lane = async () => {
    while (next < count) await run(next++)
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}

async function openWorks(workspace: TestWorkspace): Promise<Readonly<Record<string, Work>>> {
  const { admin, workspaceId: workspace_id, tenantId } = workspace
  const flows = `/v1/flows/workspaces/${workspace_id}`
  const source = `document: { dsl: '1.0.3', namespace: bench, name: five, version: '1.0.0' }
do: [${[1, 2, 3, 4, 5].map((n) => `{ s${n}: { set: { n: ${n} } } }`).join(', ')}]`
  await admin.post(`${flows}/definitions`, source)
  await admin.post(`${flows}/definitions/five/versions`, {})
  const fn = 'export default ({ n }) => n'
  const deployed = await admin.post<{ id: string }>('/v1/functions', {
    workspace_id,
    name: 'one',
    source: fn,
  })
  const documents = '/v1/collections/bench/documents'
  const { id } = await send(workspace, 'POST', documents, { n: 0 })
  const slug = `costs-${process.pid}`
  const place = (n: number) => ({
    tenant_id: tenantId,
    name: 'Bench',
    slug: `${slug}-${n}-${performance.now() | 0}`,
  })
  return {
    'get a document': { count: sized(2_000, 2), run: () => send(workspace, 'GET', `${documents}/${id}`) },
    'create a document': {
      count: sized(1_000, 2),
      run: (n) => send(workspace, 'POST', documents, { n }),
    },
    'publish an event': {
      count: sized(1_000, 2),
      run: (n) => send(workspace, 'POST', '/v1/events/publish', { topic: 'bench.costs', data: { n } }),
    },
    'call a function': {
      count: sized(200, 2),
      run: (n) => send(workspace, 'POST', `/v1/functions/${deployed.id}/invoke`, { n }),
    },
    'execution of five pure steps': {
      count: sized(200, 2),
      run: () => admin.post(`${flows}/definitions/five/executions`, { input: {} }, 30),
    },
    'workspace without a bucket': {
      count: sized(40, 2),
      run: (n) => admin.post('/v1/workspaces', { ...place(n), bucket: null }, 30),
    },
    'workspace with a bucket': {
      count: sized(20, 2),
      run: (n) => admin.post('/v1/workspaces', place(n + 1_000), 30),
    },
  }
}

async function send({ url, apikey }: TestWorkspace, method: string, path: string, body?: object) {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { apikey, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
  return (await response.json()) as { id: string }
}
