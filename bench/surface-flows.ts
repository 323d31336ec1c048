/** Measures one flow execution from POST to its output, against a bare workflow on the same Temporal. */

import type { Running } from '../test/support/stack/start.ts'
import { bareWorkflows } from './bare-worker.ts'
import { createTestWorkspace } from './fixture.ts'
import { interleaved, print } from './measure.ts'

const ROUNDS = 40

export async function flows(running: Running): Promise<void> {
  const { admin, workspaceId } = await createTestWorkspace(running)
  const base = `/v1/flows/workspaces/${workspaceId}`
  const source = `document: { dsl: '1.0.3', namespace: bench, name: one, version: '1.0.0' }\ndo:\n- one: { set: { n: 1 } }`
  await admin.post(`${base}/definitions`, source)
  await admin.post(`${base}/definitions/one/versions`, {})
  const bare = await bareWorkflows(running)
  const figures = await interleaved(ROUNDS, {
    'bare workflow': () => bare.run('bare'),
    'flow of one set': () => admin.post(`${base}/definitions/one/executions`, { input: {} }, 30),
  })
  await bare.stop()
  print('\nflow, from start to its output', 'p50 ms', 'p99 ms', '× bare')
  for (const [name, { p50Ms, p99Ms }] of Object.entries(figures)) {
    print(name, p50Ms, p99Ms, p50Ms / figures['bare workflow'].p50Ms)
  }
}
