/** Checks that two builds of the worker can serve one installation: a new one gets a share, then everything, and gives it back, while executions are alive. */

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Connection } from '@temporalio/client'
import { v7 } from 'uuid'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { ensureNamespace } from '../../../src/infra/temporal/namespace.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { migrateHere, withDatabase } from '../../support/stack/own-database.ts'
import type { Running } from '../../support/stack/start.ts'
import { startWorker } from '../../support/stack/worker-process.ts'

const namespace = `versions-${v7()}`
const deploymentName = 'tenon'
const WAITING = `  - before: { call: collection.create, with: { name: effects, document: { entry: before } } }
  - heard: { listen: { to: { one: { with: { type: go } } } } }
  - after: { call: collection.create, with: { name: effects, document: { entry: after } } }
`

let connection: Connection
let first: Running
let executions: Executions
const workers = new Map<string, ChildProcess>()
beforeAll(async () => {
  connection = await Connection.connect({ address: inject('tenon').env['TEMPORAL_ADDRESS'] ?? '' })
  await ensureNamespace(connection, namespace)
})
afterAll(() => connection?.close())

/** A database of its own: the common worker would look for its executions in another namespace, and end them. */
const withInstallation = (work: (at: Running) => Promise<void>) =>
  withDatabase(async ({ env, url }) => {
    const common = inject('tenon')
    await migrateHere(url, common.masterKey)
    const own = { ...env, TEMPORAL_NAMESPACE: namespace, TEMPORAL_DEPLOYMENT_NAME: deploymentName }
    first = { ...common, databaseUrl: url, env: { ...common.env, ...own } }
    const node = await startInProcessNode({}, first)
    try {
      await work(node.at)
    } finally {
      for (const build of [...workers.keys()]) await stop(build)
      await node.close()
    }
  })

async function start(TEMPORAL_WORKER_BUILD_ID: string): Promise<void> {
  // Without a current version, nobody gets work, but it polls.
  workers.set(
    TEMPORAL_WORKER_BUILD_ID,
    await startWorker({ ...first, env: { ...first.env, TEMPORAL_WORKER_BUILD_ID } }),
  )
}

/** As SIGTERM of a rolling restart does: it ends its steps. */
async function stop(build: string): Promise<void> {
  const worker = workers.get(build)
  workers.delete(build)
  if (worker === undefined) return
  const exited = once(worker, 'exit')
  worker.kill('SIGTERM')
  await exited
}

/** Temporal learns of a version from the first poll of its workers. */
async function whenKnown(work: () => Promise<unknown>): Promise<void> {
  let last: unknown
  const tried = eventually(() =>
    work().then(
      () => true,
      (error: unknown) => {
        last = error
        return undefined
      },
    ),
  )
  await tried.catch(() => {
    throw last
  })
}

const setCurrent = (buildId: string) =>
  whenKnown(() =>
    connection.workflowService.setWorkerDeploymentCurrentVersion({ namespace, deploymentName, buildId }),
  )
const setRamping = (buildId: string, percentage: number) =>
  whenKnown(() =>
    connection.workflowService.setWorkerDeploymentRampingVersion({
      ...{ namespace, deploymentName, buildId, percentage },
    }),
  )

/** The builds that have handled the last tasks of the latest executions, with the number of executions of each. */
async function buildsOf(latest: number): Promise<Record<string, number>> {
  const { workflowService } = connection
  const infos = await eventually(async () => {
    const { executions: listed } = await workflowService.listWorkflowExecutions({ namespace })
    const found = (listed ?? []).filter(({ execution }) => !execution?.workflowId?.includes('provision'))
    // They are listed a moment after their start.
    return found.length >= started ? found : undefined
  })
  const seconds = ({ startTime }: (typeof infos)[number]) =>
    Number(startTime?.seconds) + Number(startTime?.nanos) / 1e9
  const counts: Record<string, number> = {}
  for (const { execution } of infos.toSorted((a, b) => seconds(b) - seconds(a)).slice(0, latest)) {
    const { workflowExecutionInfo: info } = await workflowService.describeWorkflowExecution({
      namespace,
      execution: execution ?? {},
    })
    const build = info?.versioningInfo?.deploymentVersion?.buildId ?? 'none'
    counts[build] = (counts[build] ?? 0) + 1
  }
  return counts
}

let started = 0
const startWaiting = async (flow: string, count: number): Promise<string[]> => {
  const ids = await Promise.all(Array.from({ length: count }, () => executions.start(flow)))
  for (const id of ids) await executions.shown(id, 'waiting')
  started += count
  return ids
}
/** Gives the executions what they wait for, all at once. */
async function completeAll(ids: readonly string[]): Promise<void> {
  await Promise.all(ids.map((id) => executions.send(id, 'signal', { event: { type: 'go' } })))
  for (const id of ids) {
    const run = await executions.ended(id)
    expect(run.status, JSON.stringify(run.error)).toBe('completed')
  }
}

test('two builds: a ramp, a drain and a roll back, with executions that wait meanwhile: each completes, its effects once', () =>
  withInstallation(async (at) => {
    await start('one')
    await setCurrent('one')
    executions = new Executions(await createTestWorkspace(at), at)
    const flow = await executions.publish(WAITING)
    const old = await startWaiting(flow, 6)
    expect(await buildsOf(6)).toEqual({ one: 6 })

    await start('two')
    await setRamping('two', 50)
    const ramped = await startWaiting(flow, 24)
    const shares = await buildsOf(24)
    expect(Object.keys(shares).sort()).toEqual(['one', 'two'])

    await setCurrent('two')
    await stop('one')
    await completeAll([...old.slice(0, 3), ...ramped.slice(0, 8)])
    const newer = await startWaiting(flow, 4)
    expect(await buildsOf(4)).toEqual({ two: 4 })

    await start('one')
    await setCurrent('one')
    await stop('two')
    await completeAll([...old.slice(3), ...ramped.slice(8), ...newer])
    const entries = await executions.ledger('effects')
    expect(entries.filter((entry) => entry === 'before')).toHaveLength(34)
    expect(entries.filter((entry) => entry === 'after')).toHaveLength(34)
  }))
