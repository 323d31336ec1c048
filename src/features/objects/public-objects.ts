/** Reads objects that a workspace has opened to the public. All others are answered alike, so that a URL tells nothing about them. */

import type { WorkspaceScope } from '../../access/scope.ts'
import type { ByteReply } from '../../core/bytes.ts'
import { Problem } from '../../core/problem.ts'
import type { ProblemCode } from '../../core/problem-catalogue.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { SystemScope } from '../../infra/postgres/system-scope.ts'
import { TtlCache } from '../../infra/ttl-cache.ts'
import type { Conditions } from './conditions.ts'
import { type ImageInput, imageOf } from './images/image-request.ts'
import { requireReadable } from './object-rules.ts'
import { type ObjectName, objectsOf } from './workspace-objects.ts'

/** The workspaces of buckets that have objects for the public. */
export class PublicBuckets {
  readonly #system: SystemScope
  /** By name; null if there is no such bucket, or it is closed. */
  readonly #known = new TtlCache<WorkspaceRef | null>()

  constructor(database: Database) {
    this.#system = new SystemScope('public-buckets', database)
  }

  /** True if {@link find} asks nobody. */
  isKnown(bucket: string): boolean {
    return this.#known.get(bucket) !== undefined
  }

  /** Cached for a few seconds. Undefined if there is no such bucket, or nothing in it is open to the public. */
  async find(bucket: string): Promise<WorkspaceRef | undefined> {
    const found = await this.#known.load(bucket, async () => {
      const row = await this.#system.row<WorkspaceRef>(sql`
        select b.tenant_id as "tenantId", b.workspace_id as "workspaceId"
        from buckets b join services s on s.tenant_id = b.tenant_id and s.workspace_id = b.workspace_id
        where b.name = ${bucket} and s.anon ->> 'objects' = 'public' and s.public_read <> '[]'`)
      return row ?? null
    })
    return found ?? undefined
  }
}

/**
 * Reads an object in the role of an anon key.
 * @throws Problem `NoSuchKey` if the public has no such object; `PreconditionFailed`, `InvalidRange`
 */
export async function readPublicObject(
  scope: WorkspaceScope,
  verb: 'get' | 'head',
  name: ObjectName,
  input: Conditions & ImageInput,
): Promise<ByteReply> {
  await requireReadable(scope, name.key)
  return objectsOf(scope)[verb](name, input, { caching: 'public', represent: imageOf(scope, input) })
}

/** Codes that would tell a bucket, a setting or a state from a missing object. */
const TELLING: readonly ProblemCode[] = [
  ...(['forbidden', 'not_found', 'state_conflict', 'tenant_suspended', 'workspace_suspended'] as const),
  ...([
    'AccessDenied',
    'NoSuchBucket',
    'bucket_required',
    'NoSuchKey',
    'InvalidKey',
    'KeyTooLongError',
  ] as const),
]

/** The answer to a request for what is not public, whatever the reason; another error as it is. */
export function notPublic(error: unknown): unknown {
  const isTelling = error instanceof Problem && TELLING.includes(error.code)
  return isTelling ? noPublicObject(error) : error
}

export const noPublicObject = (cause?: unknown): Problem =>
  new Problem('NoSuchKey', {
    detail: 'There is no object here that the public may read.',
    hint: 'An object is public if its workspace has "public" as the setting anon.objects, and a prefix of its key in objects.public_read.',
    cause,
  })
