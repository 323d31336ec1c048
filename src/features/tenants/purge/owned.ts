/**
 * Lists what a tenant or a workspace owns, system by system: the inventory counts it, and the purge removes it. A system that
 * cannot be read fails the inventory, so that nothing is taken for gone that was not looked at.
 */

import type { AdminScope } from '../../../access/scope.ts'
import { bucketsOf, tenantWorkflowsOf } from '../../../access/scope-services.ts'
import { PAYLOAD_BUCKET } from '../../../core/object-key.ts'
import { Problem } from '../../../core/problem.ts'
import type { TenantRef } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { archivesOf } from '../../archives/archive-files.ts'
import { ownedDocuments } from '../../collections/mongo/documents.ts'
import { dropDeclaredTables } from '../../collections/schemas/declared-tables.ts'
import { ownedKeys } from '../../events/events.ts'
import { TENANT_LIMITS } from '../limits.ts'
import { HOST_ROUTES } from '../resources/host-resources.ts'
import { REALM } from '../resources/realm.ts'
import type { CountedResource } from '../resources/resource.ts'
import { countOwnedRows, deleteOwnedRows } from './owned-rows.ts'

/** Who is purged, and by which workflow. */
export interface Owner {
  readonly scope: AdminScope
  /** With `-` as workspace: the tenant with all of its workspaces. */
  readonly ref: TenantRef
  readonly workflowId: string
}

/** Counts by name, of what there is any of. */
export type Counts = Readonly<Record<string, number>>

interface OwnedPart {
  /** As steps and reports name it. */
  readonly name: string
  readonly count: (owner: Owner) => Promise<Counts>
  /** Removes some; idempotent. @returns true if there may be more */
  readonly remove: (owner: Owner) => Promise<boolean>
}

/** Resources of other systems that no other part counts. */
const COUNTED: readonly CountedResource[] = [HOST_ROUTES, REALM]

/** In the order of their removal: what makes new things first, and the rows last, which say what else there is. */
export const OWNED = [
  {
    name: 'workflows',
    count: async (owner) => {
      const { workflows, schedules } = await workOf(owner).count()
      return { temporal_workflows: workflows, temporal_schedules: schedules }
    },
    remove: (owner) => workOf(owner).removeSome(),
  },
  {
    name: 'objects',
    count: async (owner) => ({ stored_objects: await inBuckets(owner, countIn, add, 0) }),
    remove: (owner) => inBuckets(owner, removeIn, or, false),
  },
  {
    name: 'resources',
    count: async ({ scope, ref }) => countResources(scope, ref),
    remove: async ({ scope, ref }) => {
      for (const resource of countedIn(ref)) await resource.remove(scope, ref)
      return false
    },
  },
  {
    name: 'payloads',
    count: async ({ scope, ref }) => ({
      stored_payloads: await bucketsOf(scope).count(PAYLOAD_BUCKET, 'platform', payloadsOf(ref)),
    }),
    remove: async ({ scope, ref }) =>
      bucketsOf(scope).removeSome(PAYLOAD_BUCKET, 'platform', payloadsOf(ref)),
  },
  {
    name: 'documents',
    count: async ({ scope, ref }) => ({
      mongodb_documents: (await ownedDocuments(scope, ref)?.count(ref, TENANT_LIMITS.countedRowsMax)) ?? 0,
    }),
    remove: async ({ scope, ref }) => {
      await ownedDocuments(scope, ref)?.removeAll(ref)
      return false
    },
  },
  {
    name: 'streams',
    count: async ({ scope, ref }) => ({ valkey_keys: await ownedKeys(scope, ref).count() }),
    remove: async ({ scope, ref }) => {
      await ownedKeys(scope, ref).removeAll()
      return false
    },
  },
  {
    name: 'rows',
    count: ({ scope, ref }) => countOwnedRows(scope, ref),
    remove: async ({ scope, ref }) => {
      await dropDeclaredTables(scope, ref)
      return deleteOwnedRows(scope, ref)
    },
  },
] as const satisfies readonly OwnedPart[]

export type PartName = (typeof OWNED)[number]['name']

/** Of a workspace, its archives; payloads of its work are the tenant's. */
const payloadsOf = ({ tenantId, workspaceId }: TenantRef): string =>
  workspaceId === '-' ? `${tenantId}/` : archivesOf({ tenantId, workspaceId })

/** A tenant has those of its workspaces as well. */
const countedIn = (ref: TenantRef): readonly CountedResource[] =>
  COUNTED.filter(({ of }) => of === 'workspace' || isTenant(ref))

async function countResources(scope: AdminScope, ref: TenantRef): Promise<Counts> {
  const counts: Record<string, number> = {}
  for (const { name, count } of countedIn(ref)) counts[name] = await count(scope, ref)
  return counts
}

const isTenant = ({ workspaceId }: TenantRef): boolean => workspaceId === '-'

const workOf = ({ scope, ref, workflowId }: Owner) => tenantWorkflowsOf(scope, ref).ownedWork(workflowId)

interface OwnBucket {
  readonly workspace: string
  readonly name: string
}

/** Works on the bucket of each workspace, and combines the results. */
async function inBuckets<T>(
  { scope, ref }: Owner,
  work: (scope: AdminScope, bucket: OwnBucket) => Promise<T>,
  combine: (left: T, right: T) => T,
  none: T,
): Promise<T> {
  const buckets = await scope.rows<OwnBucket>(sql`
    select workspace_id as workspace, name from buckets
    where tenant_id = ${ref.tenantId} and (${ref.workspaceId} = '-' or workspace_id = ${ref.workspaceId})`)
  let result = none
  for (const bucket of buckets) result = combine(result, await work(scope, bucket))
  return result
}

const countIn = (scope: AdminScope, { name, workspace }: OwnBucket) => bucketsOf(scope).count(name, workspace)

/** The bucket itself is removed when it is empty. */
async function removeIn(scope: AdminScope, { name, workspace }: OwnBucket): Promise<boolean> {
  if (await bucketsOf(scope).removeSome(name, workspace)) return true
  try {
    await bucketsOf(scope).remove(name, workspace)
    return false
  } catch (error) {
    // A write that was admitted before has come since.
    if (error instanceof Problem && error.code === 'conflict') return true
    throw error
  }
}

const add = (left: number, right: number): number => left + right
const or = (left: boolean, right: boolean): boolean => left || right

/** All that a tenant or a workspace has now. @throws Problem if a system cannot be read: an incomplete inventory is none */
export async function takeInventory(owner: Owner): Promise<Counts> {
  const counts: Record<string, number> = {}
  for (const { count } of OWNED) Object.assign(counts, await count(owner))
  return Object.fromEntries(Object.entries(counts).filter(([, n]) => n > 0))
}
