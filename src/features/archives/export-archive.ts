/** Exports a workspace, or a tenant with its workspaces: writes all that it has at one moment to an archive. */

import type { Snapshot } from '../../access/privileges.ts'
import { privilege } from '../../access/privileges.ts'
import type { AdminScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantRef, WorkspaceId } from '../../core/tenant.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { findRow } from '../operation-helpers.ts'
import { archiveFile, type StoredArchive } from './archive-files.ts'
import {
  type ArchiveCounts,
  FORMAT,
  FORMAT_VERSION,
  HEAD,
  type Head,
  WORKSPACE_HEAD,
  WORKSPACES,
  type WorkspaceHead,
} from './format/layout.ts'
import { ArchiveWriter } from './format/writer.ts'
import { packed } from './format/zstd.ts'
import { gatherMissing } from './part.ts'
import { PARTS, TENANT_PARTS } from './parts/index.ts'

const openSnapshot = privilege('archives.snapshot')

export interface Exported extends StoredArchive {
  readonly counts: ArchiveCounts
  /** What has to be set by hand where it is imported. */
  readonly missing: readonly string[]
}

interface ExportJob {
  readonly operationId: string
  /** Of the operation, which names the file. */
  readonly attempt: number
  readonly url: string
  /** Is told what was written so far; it throws to end the export. */
  readonly progress: (counts: ArchiveCounts) => void
}

/**
 * Writes the archive anew at every attempt: each is of one moment, that of its own beginning.
 * @throws Problem `state_conflict` if a workspace of the tenant is not active, `dependency_unavailable`, also if bytes of an object have
 *   vanished: an archive is complete, or there is none
 */
export async function exportArchive(
  scope: AdminScope,
  ref: TenantRef,
  { operationId, attempt, url, progress }: ExportJob,
): Promise<Exported> {
  return openSnapshot(scope, ref, async (snapshot) => {
    const missing = gatherMissing()
    const writer = new ArchiveWriter()
    const writing = { writer, snapshot, url, missing: missing.tell }
    const members =
      ref.workspaceId === '-' ? membersOfTenant(writing) : membersOfWorkspace(writing, ref.workspaceId)
    const chunks = reported(members, () => progress(writer.counts))
    // While the bytes of objects are read, no part asks the snapshot anything.
    const awake = keptAwake(chunks, () => snapshot.tenant.row(sql`select`))
    const stored = await archiveFile(scope, ref, operationId, attempt).write(packed(awake))
    return { ...stored, attempt, counts: writer.counts, missing: missing.list() }
  })
}

interface Writing {
  readonly writer: ArchiveWriter
  readonly snapshot: Snapshot
  readonly url: string
  readonly missing: (what: string) => void
}

async function* membersOfWorkspace(
  { writer, snapshot, url, missing }: Writing,
  workspaceId: WorkspaceId,
): AsyncGenerator<Uint8Array> {
  const { tenant_id, exported_at, ...workspace } = await findRow<
    WorkspaceHead & { tenant_id: string; exported_at: string }
  >(
    snapshot.tenant,
    'workspace',
    sql`select tenant_id, id as workspace_id, name, slug, bucket, environment, now() as exported_at from workspaces where id = ${workspaceId}`,
  )
  yield* headOf(writer, { kind: 'workspace', exported_at, origin: { url, tenant_id, ...workspace } })
  const source = { ...snapshot.open(workspaceId), missing }
  for (const part of PARTS) yield* part.write(writer, source)
  yield* writer.end()
}

async function* membersOfTenant({ writer, snapshot, url, missing }: Writing): AsyncGenerator<Uint8Array> {
  const { tenant } = snapshot
  const { exported_at, ...origin } = await findRow<{
    tenant_id: string
    name: string
    slug: string
    exported_at: string
  }>(tenant, 'tenant', sql`select id as tenant_id, name, slug, now() as exported_at from tenants`)
  const workspaces = await requireWorkspaces(tenant)
  yield* headOf(writer, { kind: 'tenant', exported_at, origin: { url, ...origin } })
  for (const part of TENANT_PARTS) yield* part.write(writer, { tenant, missing })
  for (const workspace of workspaces) {
    const { workspace_id, slug } = workspace
    writer.enter(`${WORKSPACES}/${slug}/`)
    writer.count('workspaces')
    yield* writer.small(WORKSPACE_HEAD, Buffer.from(JSON.stringify(workspace)))
    const below = (what: string) => missing(`workspace ${slug}: ${what}`)
    const source = { ...snapshot.open(workspace_id as WorkspaceId), missing: below }
    for (const part of PARTS) yield* part.write(writer, source)
  }
  writer.enter('')
  yield* writer.end()
}

/** Of those that are being deleted, or were never completed, nothing is written. @throws Problem `state_conflict` */
export async function requireWorkspaces(
  tenant: AdminScope,
  tenantId = tenant.tenantId,
): Promise<WorkspaceHead[]> {
  const rows = await tenant.rows<WorkspaceHead & { state: string }>(sql`
    select id as workspace_id, name, slug, bucket, environment, state from workspaces
    where tenant_id = ${tenantId} and state in ('active', 'suspended', 'provisioning') order by slug`)
  const other = rows.find(({ state }) => state !== 'active')
  if (other !== undefined)
    throw new Problem('state_conflict', {
      detail: `The workspace ${other.slug} is ${other.state}. An archive of the tenant has all of its workspaces, and each has to be active.`,
    })
  return rows.map(({ state: _, ...workspace }) => workspace)
}

const headOf = (
  writer: ArchiveWriter,
  head: Omit<Head<'tenant'>, 'format' | 'version'> | Omit<Head<'workspace'>, 'format' | 'version'>,
) => writer.small(HEAD, Buffer.from(JSON.stringify({ format: FORMAT, version: FORMAT_VERSION, ...head })))

async function* reported(chunks: AsyncIterable<Uint8Array>, report: () => void): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    yield chunk
    report()
  }
}

/** PostgreSQL ends a snapshot that stands still for ten times as long. */
const AWAKE_MS = INFRA_LIMITS.snapshotIdleMs / 10

/** Asks something between two chunks, if the last question was so long ago. */
export async function* keptAwake(
  chunks: AsyncIterable<Uint8Array>,
  ask: () => Promise<unknown>,
  everyMs = AWAKE_MS,
): AsyncGenerator<Uint8Array> {
  let askedMs = performance.now()
  for await (const chunk of chunks) {
    yield chunk
    if (performance.now() < askedMs + everyMs) continue
    await ask()
    askedMs = performance.now()
  }
}
