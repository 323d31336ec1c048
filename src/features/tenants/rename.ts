/** Changes names and slugs of tenants and workspaces. */

import Type, { type Static } from 'typebox'
import { effectOnce } from '../../access/effect-once.ts'
import { adminOperation, Input, Name, Ref, Slug } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { OPERATORS, type Role, TENANT_ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { isTenantId } from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { conflictIf } from '../operation-helpers.ts'
import { REALM } from './resources/realm.ts'
import type { Noun } from './suspension.ts'
import { findTenant, findWorkspace, Tenant, Workspace } from './tenants.ts'

const renaming = <O extends typeof Tenant | typeof Workspace>(
  noun: Noun,
  roles: readonly Role[],
  output: O,
  find: (scope: AdminScope, id: string) => Promise<Static<O>>,
) =>
  adminOperation({
    name: `${noun}.update`,
    summary: `Update the name or the slug of a ${noun}; absent members do not change`,
    roles,
    input: Input({ id: Ref(noun), name: Type.Optional(Name), slug: Type.Optional(Slug) }),
    output,
    http: { method: 'PATCH', path: `/v1/${noun}s/{id}`, body: '*' },
    run: async (scope, { id, name = null, slug = null }) => {
      const change = sql`name = coalesce(${name}, name), slug = coalesce(${slug}, slug), updated_at = now()
        where id = ${id} and state in ('active', 'suspended') returning id`
      const statement =
        noun === 'tenant' ? sql`update tenants set ${change}` : sql`update workspaces set ${change}`
      const taken = `There is a ${noun} with the slug ${slug} already.`
      const renamed = await effectOnce(scope, async (inside) => {
        const changed = await inside.row(statement)
        const record = await find(inside, id)
        if (changed === undefined)
          throw new Problem('state_conflict', {
            detail: `The ${noun} cannot be renamed, because its state is ${record.state}.`,
          })
        return record
      }).catch(conflictIf({ tenants_slug_key: taken, workspaces_tenant_id_slug_key: taken }))
      if (noun === 'tenant') await renameElsewhere(scope, id)
      return renamed
    },
  })

/** What shows a tenant's name in another system. The record has its new name whatever happens here: the next look at the drift repairs it. */
async function renameElsewhere(scope: AdminScope, id: string): Promise<void> {
  if (!isTenantId(id)) return
  const change = REALM.apply(scope, { tenantId: id, workspaceId: '-' })
  await change.catch((error: unknown) => scope.logError(error, 'tenant not renamed in its realm'))
}

export const updateTenant = renaming('tenant', OPERATORS, Tenant, findTenant)
export const updateWorkspace = renaming('workspace', TENANT_ADMINS, Workspace, findWorkspace)
