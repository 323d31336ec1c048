/** Suspending and resuming in tests, and what is shown of runs meanwhile. */

import { Client, Connection } from '@temporalio/client'
import { inject } from 'vitest'
import { type Caller, call, eventually, operator, type Reply, type Room } from './tenants.ts'

export const suspend = async ({ tenantId }: { tenantId: string }, body: unknown = {}): Promise<Reply> =>
  call('POST', `/v1/tenants/${tenantId}/suspend`, { as: await operator(), body })

export const resume = async ({ tenantId }: { tenantId: string }): Promise<Reply> =>
  call('POST', `/v1/tenants/${tenantId}/resume`, { as: await operator() })

export const suspendWorkspace = ({ workspaceId }: Room, as: Caller): Promise<Reply> =>
  call('POST', `/v1/workspaces/${workspaceId}/suspend`, { as, body: {} })

export const resumeWorkspace = ({ workspaceId }: Room, as: Caller): Promise<Reply> =>
  call('POST', `/v1/workspaces/${workspaceId}/resume`, { as })

/** Publishes a flow whose tasks are these lines of YAML. */
export async function publish(room: Room, name: string, tasks: string): Promise<void> {
  const source = `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }\ndo:\n${tasks}`
  const as = room.operator
  const made = await call('POST', `${room.flows}/definitions`, { as, body: { source } })
  const version = await call('POST', `${room.flows}/definitions/${name}/versions`, { as, body: {} })
  if (made.status !== 201 || version.status !== 201)
    throw new Error(JSON.stringify([made.body, version.body]))
}

/** Starts a run; its id. */
export async function start(room: Room, flow: string, input: unknown = {}): Promise<string> {
  const path = `${room.flows}/definitions/${flow}/executions`
  const made = await call('POST', path, { as: room.operator, body: { input } })
  if (made.status !== 201) throw new Error(JSON.stringify(made.body))
  return made.body.id
}

export const runOf = async (room: Room, id: string) =>
  (await call('GET', `${room.flows}/executions/${id}`, { as: room.operator })).body

/** Waits until the run is shown with this status. */
export const shown = (room: Room, id: string, status: string, ms = 20_000) =>
  eventually(async () => {
    const run = await runOf(room, id)
    return run.status === status ? run : undefined
  }, ms)

/** The documents of a collection, whatever state its tenant is in. */
export const documents = async (room: Room, collection: string) =>
  (await call('GET', `/v1/collections/${collection}/documents?page[size]=200`, { as: room.service })).body
    .data

/** Waits until a worker runs a function of the tenant. */
export async function functionRuns({ tenantId }: Room): Promise<void> {
  const connection = await Connection.connect({ address: inject('tenon').env['TEMPORAL_ADDRESS'] ?? '' })
  const { workflow } = new Client({ connection })
  try {
    await eventually(async () => {
      const query = `TenantId = '${tenantId}' and WorkflowType = 'functionRun'`
      for await (const { workflowId } of workflow.list({ query })) {
        const { raw } = await workflow.getHandle(workflowId).describe()
        if (raw.pendingActivities?.some(({ lastStartedTime }) => lastStartedTime != null)) return true
      }
      return undefined
    })
  } finally {
    await connection.close()
  }
}
