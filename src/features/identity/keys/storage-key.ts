/** Storage keys, which sign requests of the S3 API: what they may do, and the encryption of their secrets. */

import Type from 'typebox'
import { storageKeyPurpose } from '../../../access/authentication/authenticator.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { encryptIn } from '../../../access/scope-services.ts'
import { isPrefix } from '../../../core/object-key.ts'
import { STORAGE_ACTIONS, type StorageAction, type StorageGrant } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { fieldProblem } from '../../operation-helpers.ts'
import { ACTIVE, inactiveProblem } from '../../tenants/active.ts'
import type { ApiKey, StorageParts } from './key.ts'
import { API_KEY_LIMITS } from './limits.ts'

export const Actions = Type.Array(Type.Enum([...STORAGE_ACTIONS]), {
  minItems: 1,
  uniqueItems: true,
  description:
    'Actions of a storage key, which this kind requires: `read`; `write`, which includes deletion; `list`; `admin` for all of them.',
})

export const Prefixes = Type.Array(Type.String({ minLength: 1, maxLength: 1_024 }), {
  minItems: 1,
  maxItems: API_KEY_LIMITS.prefixesMax,
  uniqueItems: true,
  description: 'Prefixes of the objects that a storage key reaches, such as `in/`. Absent: the whole bucket.',
})

interface SentGrant {
  readonly actions?: readonly StorageAction[]
  readonly prefixes?: readonly string[]
}

/** @returns null for a key of another kind @throws Problem `validation_failed` for members that do not fit the kind */
export function checkedGrant(kind: ApiKey['kind'], { actions, prefixes }: SentGrant): StorageGrant | null {
  if (kind !== 'storage') {
    const [misplaced] = Object.entries({ actions, prefixes }).filter(([, value]) => value !== undefined)
    if (misplaced === undefined) return null
    throw fieldProblem(misplaced[0], `Only a key of the kind storage has ${misplaced[0]}.`)
  }
  if (actions === undefined)
    throw fieldProblem('actions', `A storage key needs at least one of ${STORAGE_ACTIONS.join(', ')}.`)
  const odd = prefixes?.find((prefix) => !isPrefix(prefix))
  if (odd !== undefined)
    throw fieldProblem('prefixes', 'A prefix ends with a slash and does not begin with one: in/.')
  return { actions: [...new Set(actions)].sort(), prefixes: prefixes ?? null }
}

/** The grant of a stored key; null if it is of another kind. */
export const grantOf = ({ kind, actions, prefixes }: ApiKey): StorageGrant | null =>
  kind === 'storage' ? { actions: actions ?? [], prefixes } : null

/**
 * What a new storage key has besides others.
 * @throws Problem `bucket_required` if its workspace has no bucket; `state_conflict` if it is not active
 */
export async function storageParts(
  scope: AdminScope,
  { id, workspaceId, grant }: { id: string; workspaceId: string; grant: StorageGrant },
): Promise<StorageParts> {
  const found = await scope.row<WorkspaceRef & { readonly bucket: string | null }>(
    sql`select tenant_id as "tenantId", id as "workspaceId", bucket from workspaces where id = ${workspaceId} and ${ACTIVE}`,
  )
  if (found === undefined) throw await inactiveProblem(scope, workspaceId)
  const { bucket, ...ref } = found
  if (bucket === null) throw new Problem('bucket_required')
  return { grant, seal: (secret) => encryptIn(scope, ref, storageKeyPurpose(id), Buffer.from(secret)) }
}
