/** Creates one of each thing in a workspace, for the requests of a fuzzer. */

import { Runs } from '../../support/fixtures/executions.ts'
import { call, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import type { Running } from '../../support/stack/start.ts'
import type { FuzzTargets } from './schemathesis.ts'

const COLLECTION = 'fuzzed'
const FUNCTION = 'fuzzed'

export async function fuzzTargets(testWorkspace: TestWorkspace, at?: Running): Promise<FuzzTargets> {
  const where = at === undefined ? {} : { at }
  const document = await call('POST', `/v1/collections/${COLLECTION}/documents`, {
    ...where,
    as: testWorkspace.service,
    body: { title: 'first', n: 1 },
  })
  const source = 'export default (input: unknown) => ({ input })'
  await call('POST', '/v1/functions', {
    ...where,
    as: testWorkspace.operator,
    body: { workspace_id: testWorkspace.workspaceId, name: FUNCTION, source },
  })
  const workspace = await call('GET', `/v1/workspaces/${testWorkspace.workspaceId}`, {
    ...where,
    as: testWorkspace.operator,
  })
  const runs = new Runs(testWorkspace, at)
  const flow = await runs.publish('  - heard: { listen: { to: { one: { with: { type: told } } } } }\n')
  return {
    workspaceId: testWorkspace.workspaceId,
    bucket: workspace.body.bucket ?? 'none',
    collection: COLLECTION,
    documentId: document.body.id,
    functionName: FUNCTION,
    flow,
    executionId: await runs.start(flow),
  }
}
