/** The namespace of the platform in Temporal: made by a migration, checked at the start, and no caller's fault. */

import { Connection } from '@temporalio/client'
import { msToTs } from '@temporalio/common/lib/time.js'
import { expect, inject, test } from 'vitest'
import { SEARCH_ATTRIBUTES } from '../../../src/core/work.ts'
import { runCommand } from '../../support/clients/cli.ts'
import { partStatus } from '../../support/clients/status.ts'
import { call, createTestWorkspace, eventually, unique } from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { refusalOf } from '../../support/stack/start-outcome.ts'

const address = inject('tenon').env['TEMPORAL_ADDRESS'] ?? ''

async function withConnection<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
  const connection = await Connection.connect({ address })
  try {
    return await work(connection)
  } finally {
    await connection.close()
  }
}

/** A namespace without search attributes, as an administrator makes it. */
async function makeNamespace(): Promise<string> {
  const namespace = unique('bare')
  const workflowExecutionRetentionPeriod = msToTs('1 day')
  await withConnection(({ workflowService }) =>
    workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod }),
  )
  return namespace
}

test('namespace without search attributes, and none: no 400 for callers, worker does not start; migrated: both work', async () => {
  const workspace = await createTestWorkspace()
  const [bare, none] = [await makeNamespace(), unique('none')]
  for (const [TEMPORAL_NAMESPACE, cause, sentence] of [
    [
      bare,
      'attributes',
      /temporal: The namespace "\S+" of Temporal lacks the search attributes TenantId, .*Run `tenon migrate`/,
    ],
    [none, 'namespace', /temporal: The namespace "\S+" does not exist in Temporal\. Run `tenon migrate`/],
  ] as const) {
    const node = await startInProcessNode({ TEMPORAL_NAMESPACE })
    try {
      const create = () =>
        call('POST', '/v1/workspaces', {
          ...{ as: workspace.operator, at: node.at },
          body: { tenant_id: workspace.tenantId, name: 'New', slug: unique('new') },
        })
      const { status, body } = await create()
      expect([status, body.code]).toEqual([503, 'dependency_unavailable'])
      expect(body.detail).toMatch(/^Temporal refuses the platform\. /)
      expect(body.hint).toContain('npx tenon doctor')
      expect(await refusalOf('worker', { TEMPORAL_NAMESPACE })).toMatch(sentence)
      expect(await partStatus('temporal', node.at)).toMatchObject({
        ...{ status: 'fail', cause },
        detail: expect.stringMatching(cause === 'namespace' ? /which makes it/ : /lacks .*which adds them/),
      })
      const { databaseUrl: DATABASE_URL, masterKey: TENON_MASTER_KEY } = inject('tenon')
      const env = { DATABASE_URL, TENON_MASTER_KEY, TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE }
      const migrated = await runCommand(['migrate'], { env })
      expect([migrated.code, migrated.stderr]).toEqual([0, ''])
      expect(migrated.stdout).toContain(`search attributes ${Object.keys(SEARCH_ATTRIBUTES).join(', ')}`)
      expect((await runCommand(['migrate'], { env })).stdout).toBe('Up to date.\n')
      expect(await refusalOf('worker', { TEMPORAL_NAMESPACE })).toBe('')
      await eventually(async () => ((await create()).status === 202 ? true : undefined))
    } finally {
      await node.close()
    }
  }
})
