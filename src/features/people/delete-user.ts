/** Deletes a user, and on request everything that the user has stored in the workspace. */

import Type, { type Static } from 'typebox'
import { adminOperation, Input, Ref, Wait } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { ADMINS } from '../../core/policy.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { issuerAdminOf } from '../identity/identity-services.ts'
import { findRow } from '../operation-helpers.ts'
import { findInactiveReason } from '../tenants/active.ts'
import { findJob, Job } from '../tenants/jobs.ts'
import { provision } from '../tenants/provisioning.ts'
import { isEnded } from '../tenants/unfinished.ts'
import { countPersonalData, findPerson } from './personal-data.ts'

const Deleted = Type.Object({ id: Type.String(), deleted: Type.Literal(true) })

const Preview = Type.Object({
  id: Type.String(),
  dry_run: Type.Literal(true),
  documents: Type.Record(Type.String(), Type.Integer(), {
    description: 'Number of documents that the user owns, by collection.',
  }),
  objects: Type.Integer({
    description:
      'Number of objects that the user has created, or that are below the own prefixes of the user.',
  }),
})

export const deleteUser = adminOperation({
  name: 'user.delete',
  summary:
    'Delete a user, and with `data=delete` the documents and objects of the user; tokens become invalid within 5 s',
  roles: ADMINS,
  recentProof: ({ data = 'keep', dry_run = false }) => data !== 'keep' && !dry_run,
  input: Input({
    id: Ref('user'),
    data: Type.Optional(
      Type.Union([Type.Literal('keep'), Type.Literal('delete')], {
        description:
          'Fate of the documents that the user owns, and of the objects that the user has created or that are below the own prefixes of the user: `keep` or `delete`. Default: `keep`.',
      }),
    ),
    dry_run: Type.Optional(
      Type.Boolean({
        description: 'True if nothing is changed: the reply counts what `data=delete` would delete.',
      }),
    ),
    wait: Wait,
  }),
  output: Type.Union([Deleted, Preview, Job]),
  http: {
    method: 'DELETE',
    path: '/v1/users/{id}',
    headers: { wait: 'prefer' },
    status: (output) => ('type' in output ? 202 : 200),
    location: (output: { readonly id: string }) =>
      'type' in output ? `/v1/operations/${output.id}` : undefined,
  },
  run: async (scope, { id, data = 'keep', dry_run = false, wait = 0 }) => {
    const operationId = scope.newId('op')
    const earlier = await findJob(scope, operationId)
    if (earlier !== undefined && isEnded(earlier)) return earlier
    const ref = await readWorkspaceRef(scope, id)
    if (dry_run)
      return { id, dry_run, ...(await countPersonalData(await findPerson(scope, ref, id))) } as const
    return data === 'keep' ? deleteRecord(scope, id) : deleteAll(scope, { id, ref, operationId, wait })
  },
})

async function readWorkspaceRef(scope: AdminScope, id: string): Promise<WorkspaceRef> {
  const row = await findRow<{ tenant_id: TenantId; workspace_id: WorkspaceId }>(
    scope,
    'user',
    sql`select tenant_id, workspace_id from users where id = ${id}`,
  )
  return { tenantId: row.tenant_id, workspaceId: row.workspace_id }
}

async function deleteRecord(scope: AdminScope, id: string): Promise<Static<typeof Deleted>> {
  await findRow(scope, 'user', sql`delete from users where id = ${id} returning id`)
  issuerAdminOf(scope).forgetSubject(id)
  return { id, deleted: true }
}

interface Removal {
  readonly id: string
  readonly ref: WorkspaceRef
  readonly operationId: string
  readonly wait: number
}

/** Signs the user out at once, and deletes the data by a job, which goes on whatever stops. The user is deleted last. */
async function deleteAll(scope: AdminScope, { id, ref, operationId, wait }: Removal): Promise<Job> {
  // What an operator holds stays, and a deletion that is undone finds everybody as they were.
  const inactive = await findInactiveReason(scope, ref.workspaceId)
  if (inactive !== undefined) throw inactive
  const { operation, ended } = await provision(scope, {
    ...{ name: 'user_removal', ref, operationId, waitS: wait },
    subject: { type: 'user.delete', target: id },
    change: sql`update users set disabled_at = coalesce(disabled_at, now()), updated_at = now() where id = ${id}`,
    // A user who is to be deleted stays signed out.
    undo: sql`select 1`,
  })
  issuerAdminOf(scope).forgetSubject(id)
  return (ended ? await findJob(scope, operation.id) : undefined) ?? operation
}
