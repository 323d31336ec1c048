/** Deletes a user, and on request everything that the user has stored in the workspace, or whose it was. */

import { randomUUID } from 'node:crypto'
import Type, { type Static } from 'typebox'
import { adminOperation, Deleted, Input, Ref, Wait } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID } from '../../core/components/examples.ts'
import { typeId } from '../../core/ids.ts'
import { ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { issuerAdminOf } from '../identity/identity-services.ts'
import { findRow } from '../operation-helpers.ts'
import { findInactiveReason } from '../tenants/active.ts'
import { findJob, Job } from '../tenants/jobs.ts'
import { provision } from '../tenants/provisioning.ts'
import { isEnded } from '../tenants/unfinished.ts'
import { countTraces } from './anonymous-data.ts'
import { countPersonalData, findPerson } from './personal-data.ts'

const Preview = component(
  'UserRemovalPreview',
  Type.Object({
    id: Type.String(),
    dry_run: Type.Literal(true),
    documents: Type.Record(Type.String(), Type.Integer(), {
      description: 'Number of documents that the user owns, by collection.',
    }),
    objects: Type.Integer({
      description:
        'Number of objects that the user has created, or that are below the own prefixes of the user.',
    }),
    executions: Type.Optional(
      Type.Integer({
        description:
          'Number of executions that the user has started or caused; of `data=anonymize` alone, like the other members after `objects`.',
      }),
    ),
    runs: Type.Optional(
      Type.Integer({ description: 'Number of runs of functions that the user has started or caused.' }),
    ),
    bulk_changes: Type.Optional(
      Type.Integer({ description: 'Number of bulk changes that the user has asked for or caused.' }),
    ),
    approvals: Type.Optional(Type.Integer({ description: 'Number of approvals that name the user.' })),
  }),
  { id: EXAMPLE_ID.user, dry_run: true, documents: { bookings: 12 }, objects: 1 },
)

/** What becomes of the data of a user who is deleted. */
type Fate = 'keep' | 'delete' | 'anonymize'

export const deleteUser = adminOperation({
  name: 'user.delete',
  summary:
    'Delete a user, with `data=delete` also the documents and objects of the user, with `data=anonymize` what leads from them to the user; tokens become invalid within 5 s',
  roles: ADMINS,
  recentProof: ({ data = 'keep', dry_run = false }) => data !== 'keep' && !dry_run,
  input: Input({
    id: Ref('user'),
    data: Type.Optional(
      Type.Union([Type.Literal('keep'), Type.Literal('delete'), Type.Literal('anonymize')], {
        description:
          'Fate of the documents that the user owns, and of the objects that the user has created or that are below the own prefixes of the user: `keep`, `delete`, or `anonymize`, which gives them and the records of work a pseudonym that is recorded nowhere else. Default: `keep`.',
      }),
    ),
    dry_run: Type.Optional(
      Type.Boolean({
        description:
          'True if nothing is changed: the reply counts what `data=delete` would delete, or `data=anonymize` change.',
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
    if (dry_run) return preview(scope, { id, ref, data })
    await refuseOtherFate(scope, id, data)
    return data === 'keep' ? deleteRecord(scope, id) : startJob(scope, { id, ref, operationId, wait, data })
  },
})

interface Deletion {
  readonly id: string
  readonly ref: WorkspaceRef
  readonly data: Fate
}

async function preview(scope: AdminScope, { id, ref, data }: Deletion): Promise<Static<typeof Preview>> {
  const person = await findPerson(scope, ref, id)
  const traces = data === 'anonymize' ? await countTraces(scope, person) : undefined
  return { id, dry_run: true, ...(await countPersonalData(person)), ...traces }
}

/** @throws Problem `state_conflict` if the user is being deleted with another fate of the data: the first request decides */
async function refuseOtherFate(scope: AdminScope, id: string, data: Fate): Promise<void> {
  const row = await scope.row<{ is_anonymous: boolean; is_deleted: boolean }>(sql`
    select pseudonym is not null as is_anonymous, exists (select from operations
      where target = u.id and type = ${JOB_TYPES.delete} and state in ('queued', 'running')) as is_deleted
    from users u where id = ${id}`)
  if (row?.is_anonymous && data !== 'anonymize')
    throw new Problem('state_conflict', {
      detail: 'The user is being made anonymous. Send `data=anonymize` to continue.',
    })
  if (row?.is_deleted && data !== 'delete')
    throw new Problem('state_conflict', { detail: 'The user is being deleted with all data.' })
}

/** The type of the operation, by what becomes of the data. */
const JOB_TYPES = { delete: 'user.delete', anonymize: 'user.anonymize' } as const

async function readWorkspaceRef(scope: AdminScope, id: string): Promise<WorkspaceRef> {
  const row = await findRow<{ tenant_id: TenantId; workspace_id: WorkspaceId }>(
    scope,
    'user',
    sql`select tenant_id, workspace_id from users where id = ${id}`,
  )
  return { tenantId: row.tenant_id, workspaceId: row.workspace_id }
}

async function deleteRecord(scope: AdminScope, id: string): Promise<Static<typeof Deleted>> {
  await findRow(scope, 'user', sql`delete from users where id = ${id} and pseudonym is null returning id`)
  issuerAdminOf(scope).forgetSubject(id)
  return { id, deleted: true }
}

interface Removal extends Deletion {
  readonly data: Exclude<Fate, 'keep'>
  readonly operationId: string
  readonly wait: number
}

/**
 * Signs the user out at once, and deletes the data, or makes them anonymous, by a job, which goes on whatever stops. The user is
 * deleted last.
 */
async function startJob(scope: AdminScope, { id, ref, data, operationId, wait }: Removal): Promise<Job> {
  // What an operator holds stays, and a deletion that is undone finds everybody as they were.
  const inactive = await findInactiveReason(scope, ref.workspaceId)
  if (inactive !== undefined) throw inactive
  // Random, and not made of the time: nothing tells whose it is, nor when it was given.
  const pseudonym = data === 'anonymize' ? typeId('usr', randomUUID()) : null
  const { operation, ended } = await provision(scope, {
    ...{ name: data === 'anonymize' ? 'user_anonymization' : 'user_removal', ref, operationId, waitS: wait },
    subject: { type: JOB_TYPES[data], target: id, isHidden: data === 'anonymize' },
    change: sql`update users set disabled_at = coalesce(disabled_at, now()), pseudonym = coalesce(pseudonym, ${pseudonym}),
      updated_at = now() where id = ${id}`,
    // A user who is to be deleted stays signed out.
    undo: sql`select 1`,
  })
  issuerAdminOf(scope).forgetSubject(id)
  return (ended ? await findJob(scope, operation.id) : undefined) ?? operation
}
