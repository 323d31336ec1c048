/** Changes names and slugs of tenants and workspaces. */

import Type, { type Static } from 'typebox'
import { effectOnce } from '../../access/effect-once.ts'
import { adminOperation, Input, Name, Ref, Slug } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { OPERATORS, type Role, TENANT_ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { conflictIf } from '../operation-helpers.ts'
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
    run: (scope, { id, name = null, slug = null }) => {
      const change = sql`name = coalesce(${name}, name), slug = coalesce(${slug}, slug), updated_at = now()
        where id = ${id} and state in ('active', 'suspended') returning id`
      const statement =
        noun === 'tenant' ? sql`update tenants set ${change}` : sql`update workspaces set ${change}`
      const taken = `There is a ${noun} with the slug ${slug} already.`
      return effectOnce(scope, async (inside) => {
        const changed = await inside.row(statement)
        const record = await find(inside, id)
        if (changed === undefined)
          throw new Problem('state_conflict', {
            detail: `The ${noun} cannot be renamed, because its state is ${record.state}.`,
          })
        return record
      }).catch(conflictIf({ tenants_slug_key: taken, workspaces_tenant_id_slug_key: taken }))
    },
  })

export const updateTenant = renaming('tenant', OPERATORS, Tenant, findTenant)
export const updateWorkspace = renaming('workspace', TENANT_ADMINS, Workspace, findWorkspace)
