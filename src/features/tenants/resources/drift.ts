/** Compares what tenants and workspaces have in other systems with the database: on request, and from time to time, when it is repaired too. */

import Type, { type Static } from 'typebox'
import { adminOperation, Input, Ref, Time } from '../../../access/operation-builders.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { component } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { PageInput, PageOf } from '../../../core/page.ts'
import { TENANT_ADMINS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { type TenantId, type TenantRef, targetOf, type WorkspaceId } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { listPage } from '../../operation-helpers.ts'
import { TENANT_LIMITS } from '../limits.ts'
import { findTenant } from '../tenants.ts'
import { BUCKET } from './bucket.ts'
import { HOST_PROOFS, HOST_ROUTES } from './host-resources.ts'
import { REALM } from './realm.ts'
import type { Comparable, Difference } from './resource.ts'
import { SCHEDULES } from './schedules.ts'

const RESOURCES: readonly Comparable[] = [BUCKET, SCHEDULES, HOST_PROOFS, HOST_ROUTES, REALM]

export const Drift = component(
  'Drift',
  Type.Object({
    target: Type.String({ description: 'Id of the tenant or the workspace.' }),
    checked_at: Time,
    differences: Type.Array(
      Type.Object({
        resource: Type.String({ description: 'Kind of the resource, such as `bucket`.' }),
        name: Type.String({ description: 'Name of the resource in the other system.' }),
        kind: Type.Union(
          [
            Type.Literal('missing'),
            Type.Literal('altered'),
            Type.Literal('left_over'),
            Type.Literal('foreign'),
          ],
          {
            description:
              'Kind of the difference. `left_over`: the platform has made the resource, and does not know it any more. `foreign`: the platform did not make it.',
          },
        ),
        detail: Type.String(),
        repair: Type.Union([Type.Literal('automatic'), Type.Literal('by_hand')], {
          description:
            'Repair of the difference. `automatic`: by the platform at its next look, within an hour.',
        }),
      }),
    ),
    omitted: Type.Integer({ description: 'Number of further differences, which are not listed.' }),
    unread: Type.Array(Type.Object({ resource: Type.String(), detail: Type.String() }), {
      description:
        'Resources that could not be compared, and why. With any, the list of differences is incomplete.',
    }),
  }),
  {
    target: EXAMPLE_ID.workspace,
    checked_at: EXAMPLE_TIME.updated,
    differences: [
      {
        resource: 'bucket',
        name: 'bookings-4z3v73kk0e00',
        kind: 'missing',
        detail: 'The bucket does not exist.',
        repair: 'automatic',
      },
    ],
    omitted: 0,
    unread: [],
  },
)
export type Drift = Static<typeof Drift>

interface TargetRow {
  readonly id: string
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId | '-'
}

export const getDrift = adminOperation({
  name: 'tenant.drift',
  summary:
    'List how what a tenant and its workspaces have in other systems, such as buckets, differs from the database',
  roles: TENANT_ADMINS,
  input: Input({ id: Ref('tenant'), ...PageInput }),
  output: PageOf(Drift),
  http: { method: 'GET', path: '/v1/tenants/{id}/drift' },
  run: async (scope, { id, ...page }) => {
    await findTenant(scope, id)
    const targets = await listPage<TargetRow>(scope, page, targetsOf(id))
    const data: Drift[] = []
    for (const { tenant_id, workspace_id } of targets.data)
      data.push(await readDrift(scope, { tenantId: tenant_id, workspaceId: workspace_id }))
    return { ...targets, data }
  },
})

/** The tenant and its workspaces that have been created; ids of tenants sort before those of workspaces. */
const targetsOf = (tenantId: string) => sql`
  select id, id as tenant_id, '-' as workspace_id from tenants where id = ${tenantId} and state in ('active', 'suspended')
  union all
  select id, tenant_id, id from workspaces where tenant_id = ${tenantId} and state in ('active', 'suspended')`

const resourcesOf = ({ workspaceId }: TenantRef): readonly Comparable[] =>
  RESOURCES.filter(({ of }) => of === (workspaceId === '-' ? 'tenant' : 'workspace'))

/** Compares all resources; what cannot be read is said, and does not keep the others from being compared. */
async function readDrift(scope: AdminScope, ref: TenantRef): Promise<Drift> {
  const found: Difference[] = []
  const unread: Drift['unread'] = []
  for (const { name: resource, plan } of resourcesOf(ref))
    try {
      found.push(...(await plan(scope, ref)))
    } catch (error) {
      unread.push({ resource, detail: detailOf(error) })
    }
  const differences = found.slice(0, TENANT_LIMITS.differencesMax).map(({ isRepaired, ...difference }) => ({
    ...difference,
    repair: isRepaired ? ('automatic' as const) : ('by_hand' as const),
  }))
  return {
    ...{ target: targetOf(ref), checked_at: new Date().toISOString(), differences, unread },
    omitted: found.length - differences.length,
  }
}

/** @throws what is no problem of another system */
function detailOf(error: unknown): string {
  if (error instanceof Problem) return error.message
  throw error
}

/** Repairs what may be repaired; what cannot be is logged, and does not keep the others from it. @returns how it differed before */
export async function repairDrift(scope: AdminScope, ref: TenantRef): Promise<Drift> {
  const drift = await readDrift(scope, ref)
  const repaired = new Set(
    drift.differences.filter(({ repair }) => repair === 'automatic').map(({ resource }) => resource),
  )
  for (const { name: resource, apply } of resourcesOf(ref)) {
    if (!repaired.has(resource)) continue
    await apply(scope, ref).catch((error: unknown) => {
      scope.logError(error, `a ${resource} that differs from the database is not repaired`)
    })
  }
  return drift
}
