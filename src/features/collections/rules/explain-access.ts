/** Explains to an admin which rule decides about a document for an anon key or a user, test by test. */

import Type, { type Static } from 'typebox'
import { enterWorkspace } from '../../../access/access.ts'
import { adminOperation, Input, Ref } from '../../../access/operation-builders.ts'
import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { isUuid } from '../../../core/ids.ts'
import { type Actor, ADMINS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { ACTIVE } from '../../tenants/tenants.ts'
import { CollectionName, checkFields, Fields } from '../document.ts'
import { evaluate } from '../query/evaluate.ts'
import { collectionOf, lookupsFor, withCollection } from '../resolve-store.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import { createdBy, documentNotFound, type Stored, valueAt } from '../store.ts'
import { type Permissions, RIGHT_NAMES, type Right } from './access.ts'
import { bindRule, type RuleCaller } from './bind-rule.ts'
import { admits } from './permissions.ts'
import type { Rule } from './rule-language.ts'

const As = Type.Union(
  [
    Type.Literal('anon'),
    Type.Object(
      {
        id: Type.String({ minLength: 1, maxLength: 200 }),
        email: Type.Optional(Type.String({ maxLength: 320 })),
        claims: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
      },
      { additionalProperties: false },
    ),
  ],
  { description: '`"anon"`, or a user: `{"id", "email", "claims"}`, whom nobody needs to have.' },
)

const Test = Type.Object({
  test: Type.Record(Type.String(), Type.Unknown(), { description: 'As the rule spells it.' }),
  negated: Type.Boolean({ description: 'Whether it stands below a `$not`.' }),
  holds: Type.Boolean({ description: 'Negation included.' }),
})

const Explanation = Type.Object({
  allowed: Type.Boolean(),
  decided_by: Type.String({
    description:
      '`access.user.update`, the setting `anon.collections`, or `default`: what nobody declares is closed.',
  }),
  rule: Type.Union([Type.Boolean(), Type.Record(Type.String(), Type.Unknown())]),
  tests: Type.Array(Test, { description: 'Of a filter: each test, in the order of the rule.' }),
})
type Explanation = Static<typeof Explanation>

export const explainAccess = adminOperation({
  name: 'collection.explain',
  summary: 'Explain which rule decides about a document for an anon key or a user',
  roles: ADMINS,
  reads: true,
  input: Input({
    name: CollectionName,
    workspace_id: Ref('workspace'),
    as: As,
    op: Type.Enum([...RIGHT_NAMES]),
    id: Type.Optional(Ref('document')),
    document: Type.Optional(Fields),
  }),
  output: Explanation,
  http: { method: 'POST', path: '/v1/collections/{name}/access/explain', body: '*' },
  run: async (scope, { name, workspace_id, as, op, id, document }) => {
    const workspace = await workspaceOf(scope, workspace_id)
    const actor = await actorOf(workspace, name, as)
    const stored = op === 'create' ? created(actor, document) : await documentAt(workspace, name, id)
    const { declared, permissions } = await collectionOf(workspace, name, actor)
    return explain(op, { actor, declared, stored, permissions })
  },
})

async function workspaceOf(scope: AdminScope, id: string): Promise<WorkspaceScope> {
  const ref = await findRow<WorkspaceRef>(
    scope,
    'workspace',
    sql`select w.tenant_id as "tenantId", w.id as "workspaceId" from workspaces w where w.id = ${id} and ${ACTIVE}`,
  )
  return enterWorkspace(scope, ref)
}

type RuleActor = Pick<Actor, 'user' | 'lookups'> & { readonly role: 'anon' | 'user' }

/** An address that is given counts as verified. */
async function actorOf(scope: WorkspaceScope, name: string, as: Static<typeof As>): Promise<RuleActor> {
  if (as === 'anon') return { role: 'anon' }
  const { id, email, claims = {} } = as
  const user = { id, email: email ?? '', emailVerified: email !== undefined, claims }
  return { role: 'user', user, lookups: await lookupsFor(scope, name, user) }
}

/** The document that the caller would create. @throws Problem `validation_failed` if none is given */
function created(actor: RuleActor, document: Record<string, unknown> | undefined): Stored {
  if (document === undefined)
    throw new Problem('validation_failed', { detail: 'For create, send the document that would be created.' })
  return createdBy(actor, { verb: 'create', id: '', content: checkFields(document) })
}

/** @throws Problem `validation_failed` without an id, `not_found` */
async function documentAt(scope: WorkspaceScope, name: string, id: string | undefined): Promise<Stored> {
  if (id === undefined)
    throw new Problem('validation_failed', { detail: 'Send the id of the document that it is about.' })
  if (!isUuid(id)) throw documentNotFound()
  const [stored] = await withCollection(scope, name, ['read'], ({ store, collection }) =>
    store.read(scope, [{ collection, id }]),
  )
  if (stored === undefined) throw documentNotFound()
  return stored
}

interface Question {
  readonly actor: RuleActor
  readonly declared: Declaration | undefined
  readonly stored: Stored
  readonly permissions: Permissions
}

function explain(right: Right, { actor, declared, stored, permissions }: Question): Explanation {
  const { role, user, lookups } = actor
  const allowed = admits(permissions[right], stored)
  const rule = declared?.rules[role][right]
  const source = declared?.access[role]?.[right]
  if (declared === undefined || rule === undefined || source === undefined) {
    const isSetting = role === 'anon' && right === 'read' && rule === undefined
    return {
      allowed,
      decided_by: isSetting ? 'setting anon.collections' : 'default',
      rule: allowed,
      tests: [],
    }
  }
  const decided_by = `access.${role}.${right}`
  if (typeof rule === 'boolean') return { allowed, decided_by, rule, tests: [] }
  const caller = { user, lookups, now: new Date() }
  return {
    ...{ allowed, decided_by, rule: source },
    tests: testsOf(rule, { caller, declared, stored }),
  }
}

function testsOf(
  rule: Rule,
  on: { caller: RuleCaller; declared: Declaration; stored: Stored },
): Explanation['tests'] {
  if ('of' in rule) return rule.of.flatMap((part) => testsOf(part, on))
  const bound = bindRule(rule, on.caller, on.declared)
  const holds = evaluate(bound, (path) => valueAt(on.stored, path))
  const { test, not } =
    rule.kind === 'compared'
      ? { test: { [rule.field]: { [rule.operator]: rule.operand } }, not: rule.not }
      : rule.source
  return [{ test, negated: not, holds }]
}
