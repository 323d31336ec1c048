/** Records of work that was not started are taken back, also while connections to the database break. */

import { v7 } from 'uuid'
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { ofTenant } from '../../src/access/openers.ts'
import type { Platform } from '../../src/app/platform.ts'
import { typeId } from '../../src/core/ids.ts'
import type { TenantRef } from '../../src/core/tenant.ts'
import { undoBeginning } from '../../src/features/functions/runs/record-run.ts'
import { provision } from '../../src/features/tenants/provisioning.ts'
import { sql } from '../../src/infra/postgres/sql.ts'
import { deployed } from '../support/fixtures/functions.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import { type StatementProxy, startStatementProxy } from '../support/servers/statement-proxy.ts'
import { openInProcessPlatform, scopeOf } from '../support/stack/in-process-platform.ts'

let proxy: StatementProxy
let platform: Platform
beforeAll(async () => {
  // The statements that take back, and no others.
  const isUndo = (message: Buffer) =>
    message.includes('begun_by = null') || message.includes('provisioning_failed')
  proxy = await startStatementProxy(inject('tenon').env['DATABASE_APP_URL'] ?? '', isUndo)
  // Without a worker of its own machine, starts go to Temporal, where nothing listens.
  const settings = { DATABASE_APP_URL: proxy.url, TEMPORAL_ADDRESS: '127.0.0.1:9', TENON_SDK_PATCHES: 'off' }
  platform = openInProcessPlatform(settings)
})
afterAll(async () => {
  await platform.close()
  proxy.close()
})
beforeEach(() => proxy.script())

test('attempt of a function whose code did not begin: a connection breaks: it is not counted', async () => {
  const workspace = await createTestWorkspace()
  const fn = unique('fn')
  await deployed(workspace, 'export default () => 1', {}, fn)
  const reply = await call('POST', `/v1/functions/${fn}/invoke`, { as: workspace.service, body: {} })
  expect(reply.status, JSON.stringify(reply.body)).toBe(200)
  const [run] = await asSuperuser<{ id: string }>(
    `update tenon.function_runs set status = 'running', attempts = 1, begun_by = 'test', ended_at = null
     where workspace_id = $1 returning id`,
    [workspace.workspaceId],
  )
  proxy.script({ 1: 'cut' })
  const by = { runId: run?.id ?? '', attempt: 1, by: 'test' }
  await undoBeginning(scopeOf(platform, workspace), by)
  expect(proxy.applied).toEqual(['cut'])
  const rows = await asSuperuser('select status, attempts, begun_by from tenon.function_runs where id = $1', [
    by.runId,
  ])
  expect(rows).toEqual([{ status: 'queued', attempts: 0, begun_by: null }])
})

test('job that Temporal does not accept: a connection breaks: its change is undone, and the caller learns of Temporal', async () => {
  const first = await createTestWorkspace()
  const { workspaceId, tenantId } = await addTestWorkspace(first)
  const ref = { tenantId, workspaceId } as TenantRef
  const set = (state: string) => sql`update workspaces set state = ${state} where id = ${workspaceId}`
  const [change, undo] = [set('provisioning'), set('provisioning_failed')]
  const operationId = typeId('op', v7())
  proxy.script({ 1: 'cut' })
  const started = provision(ofTenant(platform.access, ref.tenantId, 'test'), {
    ...{ name: 'bare_workspace', ref, change, undo, waitS: 0, operationId },
  })
  await expect(started).rejects.toThrow('Temporal does not answer.')
  expect(proxy.applied).toEqual(['cut'])
  const rows = await asSuperuser(
    'select w.state, o.state as job from tenon.workspaces w join tenon.operations o on o.target = w.id where o.id = $1',
    [operationId],
  )
  expect(rows).toEqual([{ state: 'provisioning_failed', job: 'failed' }])
})
