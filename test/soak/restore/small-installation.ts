/** An installation with a little of everything that a backup has, which is stopped. */

import { randomBytes } from 'node:crypto'
import { Ports } from '../../../stack/ports.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspaceWithStorage } from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'
import { LocalInstallation } from './local-installation.ts'

const LARGE_BYTES = 200_000

/** @returns also its id. Its repository has one backup, of what it has. */
export async function makeSmall(): Promise<{ installation: LocalInstallation; id: string }> {
  const port = await new Ports({ remembered: {}, any: true }).take('api', 0)
  const installation = await LocalInstallation.make(port)
  const at = await installation.start()
  const workspace = await createTestWorkspaceWithStorage(at)
  const { service: as } = workspace
  for (const n of [1, 2, 3]) await call('POST', '/v1/collections/notes/documents', { as, at, body: { n } })
  const bucket = await bucketOf(workspace, at)
  const headers = { 'content-type': 'text/plain' }
  await call('PUT', `/v1/objects/${bucket}/a.txt`, { as, at, body: 'some bytes', headers })
  const executions = new Executions(workspace, at)
  const flow = await executions.publish('  - wait:\n      wait: { hours: 1 }\n', {
    more: 'schedule: { every: { hours: 1 } }\n',
  })
  // Too large for a history: its bytes are in the object store, and no table names them.
  const input = { text: randomBytes(LARGE_BYTES).toString('base64') }
  await executions.shown(await executions.start(flow, { input }), 'waiting')
  await installation.run('backup', 'create')
  const { installation: id } = JSON.parse(await installation.run('backup', 'list', '--json'))
  await installation.stop()
  return { installation, id }
}
