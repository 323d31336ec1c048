/** Explains to an admin which rule decides about a document for an anon key or a user, test by test. */

import Type, { type Static } from 'typebox'
import { adminOperation, Input, Ref } from '../../../access/operation-builders.ts'
import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { component } from '../../../core/components/component.ts'
import { isUuid } from '../../../core/ids.ts'
import { type Actor, DEVELOPERS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { findActiveWorkspace } from '../../tenants/active.ts'
import { CollectionName, checkFields } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { evaluate } from '../query/evaluate.ts'
import { lookupsFor, resolveCollection, withCollection } from '../resolve-store.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import { createdBy, documentNotFound, type Stored, valueAt } from '../store.ts'
import { type Permissions, ROW_RIGHT_NAMES, type RowRight } from './access.ts'
import { bindRule, type RuleCaller } from './bind-rule.ts'
import { admits, admitsForSure, updateOf } from './permissions.ts'
import { ownName, type Rule, wholeLookupsOf } from './rule-language.ts'

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
  { description: 'Caller: `"anon"`, or a user as `{"id", "email", "claims"}`. The user need not exist.' },
)

const Test = Type.Object({
  test: Type.Record(Type.String(), Type.Unknown(), { description: 'Test as written in the rule.' }),
  negated: Type.Boolean({ description: 'True if the test is below a `$not`.' }),
  holds: Type.Boolean({ description: 'True if the test holds, with any negation applied.' }),
  unknown: Type.Optional(
    Type.String({ description: 'Reason why the test cannot be decided; `holds` is then `false`.' }),
  ),
})

const Explanation = component(
  'AccessExplanation',
  Type.Object({
    allowed: Type.Boolean({ description: 'True if `decision` is `allowed`.' }),
    decision: Type.Enum(['allowed', 'denied', 'depends'], {
      description:
        'Decision of the rule. `depends`: an update whose rule compares with `$old` can be decided only with its result; send it as `document`.',
    }),
    reason: Type.String({
      description: 'One sentence that names the rule that decides and, for `depends`, the input to send.',
    }),
    decided_by: Type.String({
      description:
        'Rule or setting that decides: `access.user.update`, the setting `anon.collections`, or `default`: access is denied unless declared.',
    }),
    rule: Type.Union([Type.Boolean(), Type.Record(Type.String(), Type.Unknown())]),
    tests: Type.Array(Test, { description: 'Tests of a filter, in the order of the rule.' }),
  }),
  {
    allowed: false,
    decision: 'denied',
    reason: 'The rule access.user.update is not met.',
    decided_by: 'access.user.update',
    rule: { owner: '$user.id' },
    tests: [{ test: { owner: '$user.id' }, negated: false, holds: false }],
  },
)
type Explanation = Static<typeof Explanation>

const openDocuments = privilege('collections.explain')

export const explainAccess = adminOperation({
  name: 'collection.explain',
  summary: 'Explain which access rule decides on a document for an anon key or a user',
  roles: DEVELOPERS,
  reads: true,
  input: Input({
    name: CollectionName,
    workspace_id: Ref('workspace'),
    as: As,
    op: Type.Enum([...ROW_RIGHT_NAMES]),
    id: Type.Optional(Ref('document')),
    document: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description:
          'Document to decide on: for `create` the new document, for `update` the result with all of its fields.',
      }),
    ),
  }),
  output: Explanation,
  http: { method: 'POST', path: '/v1/collections/{name}/access/explain', body: '*' },
  run: async (scope, { name, workspace_id, as, op, id, document }) => {
    const workspace = openDocuments(scope, await findActiveWorkspace(scope, workspace_id))
    const actor = await resolveActor(workspace, name, as)
    const current = op === 'create' ? undefined : await documentAt(workspace, name, id)
    const isResult = op === 'update' && document !== undefined
    const result = current !== undefined && isResult ? resultOf(current, document) : undefined
    const stored = current ?? created(actor, document)
    const { declared, permissions } = await resolveCollection(workspace, name, actor)
    return explain(op, { actor, declared, stored, result, permissions })
  },
})

/** The document after an update that leaves these fields. */
const resultOf = (current: Stored, document: Record<string, unknown>): Stored => ({
  ...current,
  fields: checkFields(document).fields,
  version: current.version + 1,
})

type RuleActor = Pick<Actor, 'user' | 'lookups'> & { readonly role: 'anon' | 'user' }

/** An address that is given counts as verified. */
async function resolveActor(scope: WorkspaceScope, name: string, as: Static<typeof As>): Promise<RuleActor> {
  if (as === 'anon') return { role: 'anon' }
  const { id, email, claims = {} } = as
  const user = { id, email: email ?? '', emailVerified: email !== undefined, claims }
  return { role: 'user', user, lookups: await lookupsFor(scope, name, user) }
}

/** The document that the caller would create. @throws Problem `validation_failed` if none is given */
function created(actor: RuleActor, document: Record<string, unknown> | undefined): Stored {
  if (document === undefined)
    throw new Problem('validation_failed', { detail: 'For create, send the document that would be created.' })
  return createdBy(actor, { id: '', content: checkFields(document) })
}

/** @throws Problem `validation_failed` without an id, `not_found` */
async function documentAt(scope: WorkspaceScope, name: string, id: string | undefined): Promise<Stored> {
  if (id === undefined) throw new Problem('validation_failed', { detail: 'Send the id of the document.' })
  if (!isUuid(id)) throw documentNotFound()
  const [stored] = await withCollection(scope, name, ['read'], (collection) =>
    collection.store.read(scope, [{ collection, id }]),
  )
  if (stored === undefined) throw documentNotFound()
  return stored
}

interface Question {
  readonly actor: RuleActor
  readonly declared: Declaration | undefined
  /** The document as it is, or the new one. */
  readonly stored: Stored
  /** After an update, if the caller sent it. */
  readonly result: Stored | undefined
  readonly permissions: Permissions
}

/** Updates and deletions need a document that can be read, before and after. */
function explain(right: RowRight, question: Question): Explanation {
  const { stored, result, permissions } = question
  const needsRead = right === 'update' || right === 'delete'
  if (needsRead && !admits(permissions.read, stored))
    return explainRule('read', { ...question, result: undefined })
  const own = explainRule(right, question)
  if (own.decision !== 'allowed' || result === undefined || admits(permissions.read, result)) return own
  return explainRule('read', { ...question, stored: result, result: undefined })
}

function explainRule(right: RowRight, question: Question): Explanation {
  const { actor, declared, stored } = question
  const decided = decide(right, question)
  const rule = declared?.rules[actor.role][right]
  const source = declared?.access[actor.role]?.[right]
  if (declared === undefined || rule === undefined || source === undefined) {
    const isSetting = actor.role === 'anon' && right === 'read' && rule === undefined
    const by = isSetting ? 'setting anon.collections' : 'default'
    return { ...answer(decided, by), rule: decided === true, tests: [] }
  }
  const by = `access.${actor.role}.${right}`
  if (typeof rule === 'boolean') return { ...answer(decided, by), rule, tests: [] }
  // As an update is checked: first the document as it is, then its result.
  const admitsBefore = admits(question.permissions[right], stored)
  const result = right === 'update' && admitsBefore ? question.result : undefined
  const { user, lookups } = actor
  const caller = { user, lookups, now: new Date(), ...(result !== undefined && { old: stored }) }
  const tests = testsOf(rule, { caller, declared, stored: result ?? stored })
  return { ...answer(decided, by), rule: source, tests }
}

/** Undefined if it depends on the result of an update. */
function decide(
  right: RowRight,
  { actor, declared, stored, result, permissions }: Question,
): boolean | undefined {
  if (!admits(permissions[right], stored)) return false
  if (right !== 'update' || result === undefined)
    return admitsForSure(permissions[right], stored) || undefined
  const known = { permissions, ...(declared !== undefined && { declared }) }
  return admits(updateOf(actor, known, stored).update, result)
}

function answer(
  decided: boolean | undefined,
  by: string,
): Pick<Explanation, 'allowed' | 'decision' | 'reason' | 'decided_by'> {
  const decision = decided === undefined ? 'depends' : decided ? 'allowed' : 'denied'
  const reason = {
    allowed: `${by} admits the document.`,
    denied: `${by} does not admit the document.`,
    depends: `${by} compares the result with the document before: send the result as "document".`,
  }[decision]
  return { allowed: decided === true, decision, reason, decided_by: by }
}

interface TestedOn {
  readonly caller: RuleCaller
  readonly declared: Declaration
  readonly stored: Stored
}

function testsOf(rule: Rule, on: TestedOn): Explanation['tests'] {
  if ('of' in rule) return rule.of.flatMap((part) => testsOf(part, on))
  const bound = bindRule(rule, on.caller, on.declared)
  const holds = bound.kind !== 'deferred' && evaluate(bound, (path) => valueAt(on.stored, path))
  const { test, not } =
    rule.kind === 'compared'
      ? {
          test: { [rule.field]: { [rule.operator]: plainOperand(rule.operand, on.declared.collection) } },
          not: rule.not,
        }
      : rule.source
  const unknown = bound.kind === 'deferred' ? RESULT_UNKNOWN : truncationOf(rule, on)
  return [{ test, negated: not, holds, ...(unknown !== undefined && { unknown }) }]
}

const RESULT_UNKNOWN =
  'It compares the result of the update with the document before, and no result was sent.'

/** Names the lookup whose list was too long, if there is one. */
function truncationOf(rule: Rule, { caller: { lookups } }: TestedOn): string | undefined {
  const cut = wholeLookupsOf(rule).find((name) => lookups?.[name]?.isTruncated === true)
  if (cut === undefined) return undefined
  return `The lookup ${ownName(cut)} has more than ${COLLECTION_LIMITS.ruleLookupValuesMax} values for this user, so the test matches no document.`
}

/** The operand as the rule spells it: names of lookups without their collection. */
function plainOperand(operand: unknown, collection: string): unknown {
  if (Array.isArray(operand)) return operand.map((one) => plainOperand(one, collection))
  return typeof operand === 'string' ? operand.replace(`$lookups.${collection}/`, '$lookups.') : operand
}
