/** Operations that export a workspace or a tenant to an archive, send the archive, and make a workspace or a tenant of one. */

import Type from 'typebox'
import {
  adminOperation,
  ENVIRONMENT_DEFAULT,
  Environment,
  Input,
  Name,
  Ref,
  Slug,
  Wait,
} from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { type ByteReply, type ByteSource, Bytes } from '../../core/bytes.ts'
import { checkBucket, PAYLOAD_BUCKET } from '../../core/object-key.ts'
import { OPERATORS, TENANT_ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import {
  type TenantId,
  type TenantRef,
  targetOf,
  type WorkspaceId,
  type WorkspaceRef,
} from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { conflictIf, findRow } from '../operation-helpers.ts'
import { findInactiveReason, requireActiveTenant } from '../tenants/active.ts'
import { findJob, Job, resolveTenant } from '../tenants/jobs.ts'
import { NOT_STARTED, provision } from '../tenants/provisioning.ts'
import { Bucket, bucketTaken } from '../tenants/tenants.ts'
import { asJob, isEnded, isNotStarted } from '../tenants/unfinished.ts'
import { archiveFile } from './archive-files.ts'
import { requireWorkspaces } from './export-archive.ts'
import type { ArchiveKind, Head } from './format/layout.ts'
import { readHead } from './import-archive.ts'
import { ARCHIVE_LIMITS } from './limits.ts'
import { readArchive } from './steps.ts'

const MEDIA_TYPE = 'application/zstd'
const NOTHING = sql`select 1`

const EXPORT_OPEN = 'is under way. Wait for its end: `GET /v1/operations`.'

async function startExport(
  scope: AdminScope,
  {
    ref,
    operationId,
    waitS,
  }: { readonly ref: TenantRef; readonly operationId: string; readonly waitS: number },
): Promise<Job> {
  const noun = ref.workspaceId === '-' ? 'tenant' : 'workspace'
  const made = await provision(scope, {
    ...{ name: 'export', ref, operationId, waitS, change: NOTHING, undo: NOTHING },
    subject: { type: `${noun}.export`, target: targetOf(ref) },
    expiresMs: ARCHIVE_LIMITS.keptMs,
  }).catch(conflictIf({ operations_open_export: `An export of the ${noun} ${EXPORT_OPEN}` }))
  return ended(scope, made)
}

export const exportWorkspace = adminOperation({
  name: 'workspace.export',
  summary: 'Export a workspace at one moment as an archive, which can be downloaded for a day',
  roles: TENANT_ADMINS,
  recentProof: true,
  input: Input({ id: Ref('workspace'), wait: Wait }),
  output: Job,
  http: asJob('POST', '/v1/workspaces/{id}/exports'),
  run: async (scope, { id, wait: waitS = 0 }) => {
    const operationId = scope.newId('op')
    const earlier = await findJob(scope, operationId)
    if (earlier !== undefined && isEnded(earlier)) return earlier
    const inactive = await findInactiveReason(scope, id)
    if (inactive !== undefined) throw inactive
    return startExport(scope, { ref: await readRef(scope, id), operationId, waitS })
  },
})

export const exportTenant = adminOperation({
  name: 'tenant.export',
  summary:
    'Export a tenant with all of its workspaces at one moment as an archive, which can be downloaded for a day',
  roles: TENANT_ADMINS,
  recentProof: true,
  input: Input({ id: Ref('tenant'), wait: Wait }),
  output: Job,
  http: asJob('POST', '/v1/tenants/{id}/exports'),
  run: async (scope, { id, wait: waitS = 0 }) => {
    const operationId = scope.newId('op')
    const earlier = await findJob(scope, operationId)
    if (earlier !== undefined && isEnded(earlier)) return earlier
    const tenantId = resolveTenant(scope, id)
    await requireActiveTenant(scope, tenantId)
    await requireWorkspaces(scope, tenantId)
    return startExport(scope, { ref: { tenantId, workspaceId: '-' }, operationId, waitS })
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
  // It has the documents of workspaces, which admins otherwise do not see.
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
    const found = await findRow<{ workspace_id: WorkspaceId | '-'; name: string }>(
      scope,
      'archive',
      sql`select coalesce(w.id, '-') as workspace_id,
          coalesce(w.slug, t.slug) || '-' || to_char(o.created_at, 'YYYYMMDD') as name
        from operations o join tenants t on t.id = o.tenant_id left join workspaces w on w.id = o.target
        where o.id = ${operation} and o.tenant_id = ${id} and o.type in ('workspace.export', 'tenant.export')
          and o.state = 'succeeded' and o.expires_at > now()`,
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

const Archive = (of: string) => Bytes(`Archive of a ${of}: tar, compressed with zstd.`)

const asImport = (path: string, query: readonly string[]) => ({
  ...asJob('POST', path),
  body: 'content',
  takes: 'bytes' as const,
  bytesType: MEDIA_TYPE,
  query,
})

export const importWorkspace = adminOperation({
  name: 'workspace.import',
  summary: 'Import the archive of a workspace as a new workspace of the tenant',
  roles: TENANT_ADMINS,
  input: Input({
    id: Ref('tenant'),
    content: Archive('workspace'),
    name: Type.Optional(Name),
    slug: Type.Optional(Slug),
    bucket: Type.Optional(Bucket),
    environment: Type.Optional(Environment),
    wait: Wait,
  }),
  output: Job,
  http: asImport('/v1/tenants/{id}/imports', ['name', 'slug', 'bucket', 'environment']),
  run: async (scope, { id, content, wait = 0, ...named }) => {
    const tenantId = resolveTenant(scope, id)
    await requireActiveTenant(scope, tenantId)
    const ref = { tenantId, workspaceId: scope.newId('ws') }
    return receive(scope, { ref, kind: 'workspace', content }, ({ origin }, sent) => {
      const { slug = origin.slug, name = origin.name } = named
      const environment = named.environment ?? origin.environment ?? ENVIRONMENT_DEFAULT
      const bucket =
        origin.bucket === null && named.bucket === undefined
          ? null
          : checkBucket(named.bucket ?? `${slug}-${ref.workspaceId.slice(-12)}`)
      const record = { name, slug, bucket, environment }
      return startWorkspaceImport(scope, { ...sent, ref, waitS: wait, record })
    })
  },
})

export const importTenant = adminOperation({
  name: 'tenant.import',
  summary: 'Import the archive of a tenant as a new tenant with all of its workspaces',
  roles: OPERATORS,
  input: Input({
    content: Archive('tenant'),
    name: Type.Optional(Name),
    slug: Type.Optional(Slug),
    wait: Wait,
  }),
  output: Job,
  http: asImport('/v1/tenants/imports', ['name', 'slug']),
  run: (scope, { content, wait = 0, ...named }) => {
    const ref = { tenantId: scope.newId('ten'), workspaceId: '-' } as const
    return receive(scope, { ref, kind: 'tenant', content }, ({ origin }, sent) => {
      const { slug = origin.slug, name = origin.name } = named
      return startTenantImport(scope, { ...sent, ref, waitS: wait, record: { name, slug } })
    })
  },
})

interface Receiving<K extends ArchiveKind> {
  readonly ref: TenantRef
  readonly kind: K
  readonly content: ByteSource
}

/** An archive that was stored, and the operation that imports it. */
interface SentArchive {
  readonly operationId: string
  readonly archive: object
}

/** Stores an archive, and starts its import by what it begins with. What is refused is removed. */
async function receive<K extends ArchiveKind>(
  scope: AdminScope,
  { ref, kind, content }: Receiving<K>,
  start: (head: Head<K>, sent: SentArchive) => Promise<Job>,
): Promise<Job> {
  const operationId = scope.newId('op')
  const earlier = await findJob(scope, operationId)
  if (earlier !== undefined && !isNotStarted(earlier)) return earlier
  await recordImport(scope, ref, { operationId, kind })
  try {
    const archive = await archiveFile(scope, ref, operationId).write(content.chunks)
    const head = await readHead(scope, ref, { operationId, bytes: archive.bytes }, kind)
    return await start(head, { operationId, archive })
  } catch (error) {
    await discardSent(scope, ref, operationId).catch((cause: unknown) =>
      scope.logError(cause, 'archive of a refused import is left until it expires'),
    )
    throw error
  }
}

/**
 * Records an import before the first byte of its archive is stored, as one that has not been started, so that what is stored expires. The
 * record of a new tenant is that of one that is gone.
 * @throws Problem `state_conflict` if too many are under way: of workspaces in the tenant, of tenants in the installation
 */
async function recordImport(
  scope: AdminScope,
  ref: TenantRef,
  { operationId, kind }: { readonly operationId: string; readonly kind: ArchiveKind },
): Promise<void> {
  const { importsMax, keptMs } = ARCHIVE_LIMITS
  const { tenantId } = ref
  const type = `${kind}.import`
  const open = await scope.rows(sql`
    select id from operations
    where type = ${type} and finished_at is null and (${kind === 'tenant'}::boolean or tenant_id = ${tenantId})
    limit ${importsMax}`)
  if (open.length === importsMax)
    throw new Problem('state_conflict', {
      detail: `${importsMax} imports of ${kind === 'tenant' ? 'tenants' : 'the tenant'} are under way. Wait until one has ended: \`GET /v1/operations\`.`,
    })
  await scope.batch(
    kind === 'tenant'
      ? sql`insert into tenants (id, name, slug, state) values (${tenantId}, ${tenantId}, ${tenantId}, 'deleted') on conflict do nothing`
      : NOTHING,
    sql`
    insert into operations (id, tenant_id, type, target, workflow_id, state, error, finished_at, expires_at)
    values (${operationId}, ${tenantId}, ${type}, ${targetOf(ref)}, '-', 'failed', ${NOT_STARTED}::jsonb, now(),
      now() + make_interval(secs => ${keptMs / 1_000}))
    on conflict (id) do update set expires_at = excluded.expires_at`,
  )
}

/** Removes what was sent for an import that is refused; not if the import has begun all the same. */
async function discardSent(scope: AdminScope, ref: TenantRef, operationId: string): Promise<void> {
  const job = await findJob(scope, operationId)
  if (job === undefined || !isNotStarted(job)) return
  await archiveFile(scope, ref, operationId).remove()
  await scope.batch(
    sql`update operations set expires_at = null where id = ${operationId} and state = 'failed'`,
  )
}

interface Import<R extends TenantRef, Named> extends SentArchive {
  readonly ref: R
  readonly waitS: number
  readonly record: Named
}
interface NamedRecord {
  readonly name: string
  readonly slug: string
}

interface WorkspaceRecord extends NamedRecord {
  readonly bucket: string | null
  readonly environment: Environment
}

async function startWorkspaceImport(
  scope: AdminScope,
  {
    ref,
    operationId,
    archive,
    waitS,
    record: { name, slug, bucket, environment },
  }: Import<WorkspaceRef, WorkspaceRecord>,
): Promise<Job> {
  const { tenantId, workspaceId } = ref
  if (bucket === PAYLOAD_BUCKET) throw new Problem('conflict', { detail: bucketTaken(bucket) })
  const made = await provision(scope, {
    ...{ name: bucket === null ? 'import_bare' : 'import', ref, operationId, waitS },
    subject: { type: 'workspace.import', target: workspaceId },
    change: sql`
      insert into workspaces (id, tenant_id, name, slug, bucket, environment, state)
      values (${workspaceId}, ${tenantId}, ${name}, ${slug}, ${bucket}, ${environment}, 'provisioning')`,
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

async function startTenantImport(
  scope: AdminScope,
  { ref, operationId, archive, waitS, record: { name, slug } }: Import<TenantRef, NamedRecord>,
): Promise<Job> {
  const { tenantId } = ref
  const made = await provision(scope, {
    ...{ name: 'tenant_import', ref, operationId, waitS },
    subject: { type: 'tenant.import', target: tenantId },
    change: sql`
      update tenants set name = ${name}, slug = ${slug}, state = 'provisioning', updated_at = now()
      where id = ${tenantId} and state = 'deleted' and delete_after is null`,
    undo: sql`
      update tenants set name = id, slug = id, state = 'deleted', updated_at = now()
      where id = ${tenantId} and state = 'provisioning'`,
    result: { archive },
  }).catch(
    conflictIf({
      tenants_slug_key: `There is a tenant with the slug ${slug} already. Name another one: \`slug\`.`,
    }),
  )
  return ended(scope, made)
}
