/** Operations that export a workspace to an archive, send the archive, and make a workspace of one. */

import Type from 'typebox'
import { adminOperation, Input, Name, Ref, Slug, Wait } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { type ByteReply, Bytes } from '../../core/bytes.ts'
import { checkBucket, PAYLOAD_BUCKET } from '../../core/object-key.ts'
import { TENANT_ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { conflictIf, findRow } from '../operation-helpers.ts'
import { findInactiveReason, requireActiveTenant } from '../tenants/active.ts'
import { findJob, Job, resolveTenant } from '../tenants/jobs.ts'
import { NOT_STARTED, provision } from '../tenants/provisioning.ts'
import { Bucket, bucketTaken } from '../tenants/tenants.ts'
import { asJob, isEnded, isNotStarted } from '../tenants/unfinished.ts'
import { archiveFile } from './archive-files.ts'
import { readHead } from './import-workspace.ts'
import { ARCHIVE_LIMITS } from './limits.ts'
import { readArchive } from './steps.ts'

const MEDIA_TYPE = 'application/zstd'
const NOTHING = sql`select 1`

export const exportWorkspace = adminOperation({
  name: 'workspace.export',
  summary: 'Export a workspace at one moment as an archive, which can be downloaded for a day',
  roles: TENANT_ADMINS,
  input: Input({ id: Ref('workspace'), wait: Wait }),
  output: Job,
  http: asJob('POST', '/v1/workspaces/{id}/exports'),
  run: async (scope, { id, wait = 0 }) => {
    const operationId = scope.newId('op')
    const earlier = await findJob(scope, operationId)
    if (earlier !== undefined && isEnded(earlier)) return earlier
    const inactive = await findInactiveReason(scope, id)
    if (inactive !== undefined) throw inactive
    const ref = await readRef(scope, id)
    return ended(
      scope,
      await provision(scope, {
        ...{ name: 'export', ref, operationId, waitS: wait, change: NOTHING, undo: NOTHING },
        subject: { type: 'workspace.export', target: id },
        expiresMs: ARCHIVE_LIMITS.keptMs,
      }).catch(
        conflictIf({
          operations_open_export:
            'An export of the workspace is under way. Wait for its end: `GET /v1/operations`.',
        }),
      ),
    )
  },
})

/** The job as it is now, if it has ended. */
const ended = async (scope: AdminScope, made: { readonly operation: Job; readonly ended: boolean }) =>
  (made.ended ? await findJob(scope, made.operation.id) : undefined) ?? made.operation

async function readRef(scope: AdminScope, id: string): Promise<WorkspaceRef> {
  const row = await findRow<{ tenant_id: TenantId }>(
    scope,
    'workspace',
    sql`select tenant_id from workspaces where id = ${id}`,
  )
  return { tenantId: row.tenant_id, workspaceId: id as WorkspaceId }
}

export const getArchive = adminOperation({
  name: 'operation.get_archive',
  summary: 'Read the archive of an export, or its rest from a byte on',
  roles: TENANT_ADMINS,
  // It has the documents of the workspace, which admins otherwise do not see.
  reveals: ({ id }) => [id],
  input: Input({
    id: Ref('tenant'),
    operation: Ref('export'),
    range: Type.Optional(
      Type.String({
        maxLength: 100,
        description: 'Range `bytes=N-`, for the rest of a download that was cut off; others are ignored.',
      }),
    ),
    if_range: Type.Optional(
      Type.String({
        maxLength: 100,
        description:
          'ETag of the archive that the range belongs to; the whole archive is sent if it has another one.',
      }),
    ),
  }),
  output: Type.Unsafe<ByteReply>(Type.Unknown({ description: 'The archive: tar, compressed with zstd.' })),
  http: {
    method: 'GET',
    path: '/v1/tenants/{id}/archives/{operation}',
    headers: { range: 'range', if_range: 'if-range' },
    reply: 'bytes',
    bytesType: MEDIA_TYPE,
  },
  run: async (scope, { id, operation, range, if_range }): Promise<ByteReply> => {
    const found = await findRow<{ workspace_id: WorkspaceId; name: string }>(
      scope,
      'archive',
      sql`select w.id as workspace_id, w.slug || '-' || to_char(o.created_at, 'YYYYMMDD') as name
        from operations o join workspaces w on w.id = o.target
        where o.id = ${operation} and o.tenant_id = ${id} and o.type = 'workspace.export' and o.state = 'succeeded'
          and o.expires_at > now()`,
    )
    const { bytes, sha256, attempt } = await readArchive(scope, operation)
    const ref = { tenantId: id as TenantId, workspaceId: found.workspace_id }
    const etag = `"${sha256}"`
    const first = firstByte(if_range === undefined || if_range === etag ? range : undefined, bytes)
    return {
      status: first === 0 ? 200 : 206,
      headers: {
        'content-type': MEDIA_TYPE,
        'content-length': String(bytes - first),
        'content-disposition': `attachment; filename="${found.name}.tar.zst"`,
        'cache-control': 'private, no-store',
        'accept-ranges': 'bytes',
        etag,
        ...(first > 0 && { 'content-range': `bytes ${first}-${bytes - 1}/${bytes}` }),
      },
      chunks: archiveFile(scope, ref, operation, attempt).read(bytes, first),
    }
  },
})

/** @throws Problem `InvalidRange` */
function firstByte(range: string | undefined, bytes: number): number {
  const first = Number(/^bytes=([0-9]{1,15})-$/.exec(range ?? '')?.[1] ?? 0)
  if (first < bytes) return first
  throw new Problem('InvalidRange', { headers: { 'content-range': `bytes */${bytes}` } })
}

export const importArchive = adminOperation({
  name: 'tenant.import',
  summary: 'Import the archive of a workspace as a new workspace of the tenant',
  roles: TENANT_ADMINS,
  input: Input({
    id: Ref('tenant'),
    content: Bytes('Archive of a workspace: tar, compressed with zstd.'),
    name: Type.Optional(Name),
    slug: Type.Optional(Slug),
    bucket: Type.Optional(Bucket),
    wait: Wait,
  }),
  output: Job,
  http: {
    ...asJob('POST', '/v1/tenants/{id}/imports'),
    body: 'content',
    takes: 'bytes',
    bytesType: MEDIA_TYPE,
    query: ['name', 'slug', 'bucket'],
  },
  run: async (scope, { id, content, wait = 0, ...named }) => {
    const tenantId = resolveTenant(scope, id)
    await requireActiveTenant(scope, tenantId)
    const operationId = scope.newId('op')
    const earlier = await findJob(scope, operationId)
    if (earlier !== undefined && !isNotStarted(earlier)) return earlier
    const ref = { tenantId, workspaceId: scope.newId('ws') }
    const file = archiveFile(scope, ref, operationId)
    await recordImport(scope, ref, operationId)
    try {
      const archive = await file.write(content.chunks)
      const { origin } = await readHead(scope, ref, { operationId, bytes: archive.bytes })
      const { slug = origin.slug, name = origin.name } = named
      const bucket =
        origin.bucket === null && named.bucket === undefined
          ? null
          : checkBucket(named.bucket ?? `${slug}-${ref.workspaceId.slice(-12)}`)
      return await startImport(scope, {
        ref,
        operationId,
        archive,
        waitS: wait,
        record: { name, slug, bucket },
      })
    } catch (error) {
      await discardSent(scope, ref, operationId).catch((cause: unknown) =>
        scope.logError(cause, 'archive of a refused import is left until it expires'),
      )
      throw error
    }
  },
})

/**
 * Records an import before the first byte of its archive is stored, as one that has not been started, so that what is stored expires.
 * @throws Problem `state_conflict` if the tenant has too many under way
 */
async function recordImport(
  scope: AdminScope,
  { tenantId, workspaceId }: WorkspaceRef,
  operationId: string,
): Promise<void> {
  const { importsMax, keptMs } = ARCHIVE_LIMITS
  const open = await scope.rows(sql`
    select id from operations where tenant_id = ${tenantId} and type = 'workspace.import' and finished_at is null
    limit ${importsMax}`)
  if (open.length === importsMax)
    throw new Problem('state_conflict', {
      detail: `${importsMax} imports of the tenant are under way. Wait until one has ended: \`GET /v1/operations\`.`,
    })
  await scope.batch(sql`
    insert into operations (id, tenant_id, type, target, workflow_id, state, error, finished_at, expires_at)
    values (${operationId}, ${tenantId}, 'workspace.import', ${workspaceId}, '-', 'failed', ${NOT_STARTED}::jsonb, now(),
      now() + make_interval(secs => ${keptMs / 1_000}))
    on conflict (id) do update set expires_at = excluded.expires_at`)
}

/** Removes what was sent for an import that is refused; not if the import has begun all the same. */
async function discardSent(scope: AdminScope, ref: WorkspaceRef, operationId: string): Promise<void> {
  const job = await findJob(scope, operationId)
  if (job === undefined || !isNotStarted(job)) return
  await archiveFile(scope, ref, operationId).remove()
  await scope.batch(
    sql`update operations set expires_at = null where id = ${operationId} and state = 'failed'`,
  )
}

interface Import {
  readonly ref: WorkspaceRef
  readonly operationId: string
  readonly archive: object
  readonly waitS: number
  readonly record: { readonly name: string; readonly slug: string; readonly bucket: string | null }
}

async function startImport(
  scope: AdminScope,
  { ref, operationId, archive, waitS, record: { name, slug, bucket } }: Import,
): Promise<Job> {
  const { tenantId, workspaceId } = ref
  if (bucket === PAYLOAD_BUCKET) throw new Problem('conflict', { detail: bucketTaken(bucket) })
  const made = await provision(scope, {
    ...{ name: bucket === null ? 'import_bare' : 'import', ref, operationId, waitS },
    subject: { type: 'workspace.import', target: workspaceId },
    change: sql`
      insert into workspaces (id, tenant_id, name, slug, bucket, state)
      values (${workspaceId}, ${tenantId}, ${name}, ${slug}, ${bucket}, 'provisioning')`,
    undo: sql`update workspaces set state = 'deleted', slug = id, bucket = null where id = ${workspaceId}`,
    result: { archive },
  }).catch(
    conflictIf({
      workspaces_tenant_id_slug_key: `There is a workspace with the slug ${slug} already. Name another one: \`slug\`.`,
      workspaces_bucket_key: bucketTaken(bucket),
    }),
  )
  return ended(scope, made)
}
