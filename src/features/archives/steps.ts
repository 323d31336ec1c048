/** The steps of exports and imports, and what is known of them in the record of their operation. */

import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { publicUrlOf } from '../../access/scope-services.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantRef } from '../../core/tenant.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { findRow } from '../operation-helpers.ts'
import { TENANT_LIMITS } from '../tenants/limits.ts'
import { recordDeletion } from '../tenants/record-deletion.ts'
import { archiveFile, type StoredArchive } from './archive-files.ts'
import { exportArchive } from './export-archive.ts'
import type { ArchiveCounts } from './format/layout.ts'
import { restoreArchive, verifyArchive } from './import-archive.ts'
import { ARCHIVE_LIMITS } from './limits.ts'

/** Long steps run under the limits of archives (workflows/tenant/provision.ts). */
export const EXPORT = ['write_archive'] as const
/** The workspace is active with its activation, and nobody can use it before. Until then, the archive that was sent is kept. */
export const IMPORT = [
  'verify_archive',
  'bucket',
  'host_routes',
  'restore_archive',
  'activate_workspace',
  'remove_sent_file',
] as const

/** The tenant is active with its activation, and all its workspaces with it. */
export const TENANT_IMPORT = [
  'verify_archive',
  'realm',
  'restore_archive',
  'activate_import',
  'remove_sent_file',
] as const

/** What is undone if a step of an import fails: all at once, since the purge of a workspace removes whatever there is. */
export const IMPORT_UNDO = { verify_archive: 'discard_import' } as const

type ArchiveStepName =
  | 'write_archive'
  | 'verify_archive'
  | 'restore_archive'
  | 'remove_sent_file'
  | 'discard_import'
type ArchiveStep = (scope: AdminScope, ref: TenantRef, job: StepJob) => Promise<void>

interface StepJob {
  readonly operationId: string
  /** 1 for the first. */
  readonly attempt: number
  /** Aborts when the attempt is given up. */
  readonly signal: AbortSignal
}

export const ARCHIVE_STEP: Readonly<Record<ArchiveStepName, ArchiveStep>> = {
  write_archive: async (scope, ref, { operationId, attempt, signal }) => {
    await scope.batch(sql`
      update operations set result = coalesce(result, '{}') || jsonb_build_object('begun_at', now())
      where id = ${operationId} and finished_at is null`)
    const tell = reporter(scope, operationId)
    const { counts, missing, ...archive } = await exportArchive(scope, ref, {
      ...{ operationId, attempt, url: publicUrlOf(scope) },
      progress: (so_far) => {
        signal.throwIfAborted()
        void tell(so_far).catch(() => {})
      },
    })
    const seconds = ARCHIVE_LIMITS.keptMs / 1_000
    await scope.batch(sql`
      with kept as (select now() + make_interval(secs => ${seconds}) as until)
      update operations set expires_at = kept.until, result = ${JSON.stringify({ counts, missing })}::jsonb
        || jsonb_build_object('archive', ${JSON.stringify(archive)}::jsonb || jsonb_build_object('expires_at', kept.until))
      from kept where id = ${operationId} and finished_at is null`)
  },

  verify_archive: async (scope, ref, { operationId, signal }) => {
    const { bytes } = await readArchive(scope, operationId)
    await verifyArchive(scope, ref, { operationId, bytes, signal })
  },

  restore_archive: async (scope, ref, { operationId, signal }) => {
    if (await isRestored(scope, operationId)) return
    const { bytes } = await readArchive(scope, operationId)
    const restored = await restoreArchive(scope, ref, {
      ...{ operationId, bytes, signal },
      progress: reporter(scope, operationId),
      requireBeingMade: (made) => requireBeingMade(scope, made),
    })
    await scope.batch(
      sql`update operations set result = result || ${JSON.stringify(restored)}::jsonb where id = ${operationId}`,
    )
  },

  remove_sent_file: async (scope, ref, { operationId }) => {
    await archiveFile(scope, ref, operationId).remove()
    await scope.batch(
      sql`update operations set expires_at = null, result = result - 'archive' where id = ${operationId}`,
    )
  },

  discard_import: async (scope, ref) => {
    const from = ['provisioning_failed']
    const by = ref.workspaceId === '-' ? 'operator' : 'tenant_admin'
    await recordDeletion(scope, { ref, operationId: scope.newId('op'), by, from })
  },
}

/** True if an earlier attempt has stored everything. */
const isRestored = async (scope: AdminScope, operationId: string): Promise<boolean> =>
  (await scope.row(sql`select from operations where id = ${operationId} and result ? 'missing'`)) !==
  undefined

/** The archive of an operation. @throws Problem `not_found` */
export async function readArchive(scope: AdminScope, operationId: string): Promise<StoredArchive> {
  const { archive } = await findRow<{ archive: StoredArchive }>(
    scope,
    'archive',
    sql`select result -> 'archive' as archive from operations
      where id = ${operationId} and result ? 'archive' and type in ('workspace.export', 'workspace.import', 'tenant.export', 'tenant.import')`,
  )
  return archive
}

/** Milliseconds of one attempt, with those in which it waits for a server (workflows/tenant/provision.ts). */
const HELD_MS = ARCHIVE_LIMITS.attemptMs + TENANT_LIMITS.provisioningStepMs

/** Milliseconds by which a deletion may have begun before an export that still sees its object: its time is that of its beginning. */
const DELETION_MS = INFRA_LIMITS.lockWaitMs + INFRA_LIMITS.statementTimeoutMs.service

/**
 * The bytes of objects that were deleted since then stay for the exports that are under way, of the workspace or of its tenant.
 * @param scope an admin's of the workspace @returns null if there is none, but one that takes longer than an attempt may
 */
export async function findExportBegin(scope: WorkspaceScope): Promise<Date | null> {
  const row = await scope.row<{ held_from: Date | null }>(sql`
    select min(begun_at) - ${`${DELETION_MS} milliseconds`}::interval as held_from from (
      select (result ->> 'begun_at')::timestamptz as begun_at from operations
      where type in ('workspace.export', 'tenant.export') and finished_at is null
        and target in (tenon.workspace(), tenon.tenant())) attempts
    where begun_at > now() - ${`${HELD_MS} milliseconds`}::interval`)
  return row?.held_from ?? null
}

/** Milliseconds between two records of what was done so far. */
const REPORT_MS = 1_000

/** Records counts on the operation from time to time. */
function reporter(scope: AdminScope, operationId: string) {
  let lastMs = performance.now()
  return async (counts: ArchiveCounts): Promise<void> => {
    if (performance.now() < lastMs + REPORT_MS) return
    lastMs = performance.now()
    await scope.batch(sql`
      update operations set result = coalesce(result, '{}') || jsonb_build_object('counts', ${JSON.stringify(counts)}::jsonb)
      where id = ${operationId} and finished_at is null`)
  }
}

/** @throws Problem `state_conflict`, which ends an import whose tenant or workspace was deleted, or made active by another attempt */
async function requireBeingMade(scope: AdminScope, { tenantId, workspaceId }: TenantRef): Promise<void> {
  const row = await scope.row(
    workspaceId === '-'
      ? sql`select from tenants where id = ${tenantId} and state = 'provisioning'`
      : sql`select from workspaces where id = ${workspaceId} and state = 'provisioning'`,
  )
  if (row === undefined)
    throw new Problem('state_conflict', {
      detail: `The ${workspaceId === '-' ? 'tenant' : 'workspace'} was deleted, or completed by another attempt, during the import.`,
    })
}
