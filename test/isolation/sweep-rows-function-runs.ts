/** Rows of the sweep for runs of functions. */

import { call, eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import type { Row } from './sweep-rows.ts'
import { PAYLOAD } from './sweep-rows-flows.ts'

const run = (suffix = ''): Row => ({
  path: ({ failing }) => `/v1/functions/${failing.functionId}/runs/${failing.runId}${suffix}`,
  foreign: 'not_found',
})
const keyRun = (suffix = ''): Row => ({
  path: ({ failing }) => `/v1/invocations/${failing.runId}${suffix}`,
  foreign: 'not_found',
})

export const FUNCTION_RUN_ROWS: Readonly<Record<string, Row>> = {
  'function_run.list': {
    path: ({ failing }) => `/v1/functions/${failing.functionId}/runs`,
    foreign: 'not_found',
  },
  'function_run.get': run(),
  'function_run.logs': run('/logs'),
  'function_run.watch_logs': run('/logs/stream'),
  'function_run.redrive': run('/redrive'),
  'function_run.delete': run(),
  'function_run.redrive_all': {
    path: ({ failing }) => `/v1/functions/${failing.functionId}/redrive`,
    foreign: 'not_found',
  },
  'invocation.list': { path: () => '/v1/invocations', foreign: 'own_list' },
  'invocation.get': keyRun(),
  'invocation.logs': keyRun('/logs'),
  'invocation.watch_logs': keyRun('/logs/stream'),
  'invocation.get_operation': {
    path: ({ failing }) => `/v1/operations/${failing.runId}`,
    foreign: 'not_found',
  },
}

export interface FailingFunction {
  readonly functionId: string
  /** A dead letter of it. */
  readonly runId: string
}

/** A function that fails, and a run of it that is a dead letter. */
export async function createDeadLetter(workspace: TestWorkspace): Promise<FailingFunction> {
  const { operator, service, workspaceId: workspace_id } = workspace
  const source = 'export default ({ text }) => { throw new Error(text) }'
  const deployed = await call('POST', '/v1/functions', {
    as: operator,
    body: { workspace_id, name: 'failing-function', source },
  })
  const functionId: string = deployed.body.id
  const invoked = await call('POST', `/v1/functions/${functionId}/invoke`, {
    as: service,
    body: { text: PAYLOAD },
    headers: { prefer: 'respond-async' },
  })
  const runId: string = invoked.body.id
  await eventually(async () => {
    const { body } = await call('GET', `/v1/operations/${runId}`, { as: service })
    return body.state === 'failed' ? true : undefined
  })
  return { functionId, runId }
}
