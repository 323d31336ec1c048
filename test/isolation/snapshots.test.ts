/** An export reads one moment of one tenant, as the roles of this tenant in the database, whose policies hide all others. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { servicesOf } from '../../src/access/internals.ts'
import { type Snapshot, snapshot } from '../../src/access/openers.ts'
import { AdminScope, type Scope, type WorkspaceScope } from '../../src/access/scope.ts'
import type { Platform } from '../../src/app/platform.ts'
import { randomIds } from '../../src/core/ids.ts'
import type { TenantId, TenantRef, WorkspaceId } from '../../src/core/tenant.ts'
import { sql } from '../../src/infra/postgres/sql.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'
import { openInProcessPlatform } from '../support/stack/in-process-platform.ts'

let platform: Platform
let own: TestWorkspace
let sibling: TestWorkspace
let other: TestWorkspace
beforeAll(async () => {
  platform = openInProcessPlatform()
  ;[own, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  sibling = await addTestWorkspace(own)
  for (const workspace of [own, sibling, other]) await write(workspace)
})
afterAll(() => platform?.close())

const write = ({ service: as }: TestWorkspace) =>
  call('POST', '/v1/collections/notes/documents', { as, body: { text: 'x' } })

const refOf = ({ tenantId, workspaceId }: TestWorkspace, whole = false): TenantRef => ({
  tenantId: tenantId as TenantId,
  workspaceId: whole ? '-' : (workspaceId as WorkspaceId),
})

/** As a worker exports: with the rights of the installation. */
const system = () =>
  AdminScope.open({ subject: 'test', role: 'operator' }, {}, servicesOf(platform.access), randomIds)

const WHO = sql`current_user::text as role, session_user::text as login, current_setting('transaction_read_only') as read_only`

/** Who reads documents, and of which workspaces it sees some, without a condition. */
const seenIn = (documents: WorkspaceScope) =>
  documents.row(
    sql`select ${WHO}, (select coalesce(array_agg(distinct workspace_id), '{}') from documents) as ids`,
  )

/** Who reads the structure, and which tenants it sees. */
const seenOf = (structure: Scope) =>
  structure.row(sql`select ${WHO}, (select array_agg(id) from tenants) as ids`)

const LOGIN = { login: 'tenon_app', read_only: 'on' }

test('snapshot of a tenant: read by its own roles, which see nothing of another tenant or workspace', async () => {
  await snapshot(system(), refOf(own, true), async ({ tenant, open }) => {
    for (const workspaceId of [own, sibling].map((one) => one.workspaceId as WorkspaceId)) {
      const { documents, structure } = open(workspaceId)
      expect(await seenIn(documents)).toEqual({ ...LOGIN, role: 'tenon_service', ids: [workspaceId] })
      expect(await seenOf(structure)).toEqual({ ...LOGIN, role: 'tenon_admin', ids: [own.tenantId] })
    }
    expect(await seenOf(tenant)).toEqual({ ...LOGIN, role: 'tenon_admin', ids: [own.tenantId] })
    // Nothing is in a workspace of another tenant.
    expect(await seenIn(open(other.workspaceId as WorkspaceId).documents)).toMatchObject({ ids: [] })
  })
})

test('snapshot of a workspace: opens no other one, and changes nothing', async () => {
  const reads = (work: (inside: Snapshot) => Promise<unknown>) => snapshot(system(), refOf(own), work)
  const of = ({ workspaceId }: TestWorkspace) => workspaceId as WorkspaceId
  for (const stranger of [sibling, other])
    await expect(reads(async ({ open }) => open(of(stranger)))).rejects.toMatchObject({ code: 'not_found' })
  const removed = reads(({ open }) => open(of(own)).documents.batch(sql`delete from documents`))
  await expect(removed).rejects.toThrow()
  const { body } = await call('GET', '/v1/collections/notes/documents', { as: own.service })
  expect(body.data).toHaveLength(1)
})
