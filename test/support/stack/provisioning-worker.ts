/** Runs the workflows of creations and purges in a namespace of Temporal of its own, by a worker in the test's process whose steps can be made to fail. */

import { Connection } from '@temporalio/client'
import { NativeConnection, Worker } from '@temporalio/worker'
import { v7 } from 'uuid'
import { inject } from 'vitest'
import { HttpRequests } from '../../../src/activities/http/http-requests.ts'
import { createActivities } from '../../../src/activities/index.ts'
import { type Implementation, Scopes, tenantInterceptor } from '../../../src/activities/tenant-interceptor.ts'
import { WorkLog } from '../../../src/activities/work-log.ts'
import { buildBundle } from '../../../src/activities/workflow-bundle.ts'
import { randomIds } from '../../../src/core/ids.ts'
import type { TenantId } from '../../../src/core/tenant.ts'
import { QUEUES } from '../../../src/core/work.ts'
import { startIfDue } from '../../../src/features/tenants/due-jobs.ts'
import { openLog } from '../../../src/infra/log.ts'
import { ensureNamespace } from '../../../src/infra/temporal/namespace.ts'
import { type Node, startInProcessNode } from './in-process-node.ts'
import type { Running } from './start.ts'

export interface ProvisioningNode extends Node {
  readonly namespace: string
  /** Changes what the steps do. */
  wrap(step: (run: Implementation['provisionStep']) => Implementation['provisionStep']): void
  /** Starts a job now if it is due, as the leader's task does: it starts none in this namespace. */
  startDue(tenantId: string, operationId: string): Promise<void>
}

const source = (path: string) => new URL(`../../../src/workflows/${path}`, import.meta.url).pathname

/** An API and a worker; creations that are asked of this API run there alone. @param settings of both @param first the platform whose servers they share */
export async function startProvisioningNode(
  settings: Readonly<Record<string, string>> = {},
  first: Running = inject('tenon'),
): Promise<ProvisioningNode> {
  const address = first.env['TEMPORAL_ADDRESS'] ?? ''
  const namespace = `provisioning-${v7()}`
  const client = await Connection.connect({ address })
  await ensureNamespace(client, namespace)
  const node = await startInProcessNode({ TEMPORAL_NAMESPACE: namespace, ...settings }, first)
  const { platform } = node
  const scopes = new Scopes(platform.access)
  const activities = createActivities(platform, {
    scopes,
    requests: new HttpRequests(scopes, platform.egress),
  })
  const usual = activities.provisionStep
  let step = usual
  activities.provisionStep = (...input) => step(...input)
  const log = openLog('silent', 'test')
  const connection = await NativeConnection.connect({ address })
  const worker = await Worker.create({
    ...{ connection, namespace, activities, taskQueue: QUEUES.provisioning },
    workflowBundle: { code: await buildBundle() },
    interceptors: { activity: [tenantInterceptor(log, new WorkLog(log))] },
    dataConverter: {
      payloadCodecs: [platform.codec],
      payloadConverterPath: source('payload-converter.ts'),
      failureConverterPath: source('failure-converter.ts'),
    },
  })
  const running = worker.run()
  return {
    ...node,
    namespace,
    startDue: (tenantId, operationId) => {
      const ref = { tenantId: tenantId as TenantId, workspaceId: '-' } as const
      return startIfDue(
        scopes.admin({ ref, workflowId: 'test', ids: randomIds, chainDepth: 0, attempt: 1 }),
        operationId,
      )
    },
    wrap: (wrap) => {
      step = wrap(usual)
    },
    close: async () => {
      worker.shutdown()
      await running
      await Promise.all([connection.close(), client.close(), node.close()])
    },
  }
}
