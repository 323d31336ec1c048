/** Checks the rules of a declaration. */

import { nearest } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import { bodyProblem } from '../../operation-helpers.ts'
import { patternChars } from '../constraints/condition.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { compileFilter } from '../postgres/compile.ts'
import { tableOf } from '../postgres/table.ts'
import { type Filter, type Path, pathText } from '../query/filter.ts'
import { typed } from '../query/typed-filter.ts'
import { type Index, isOfAll } from '../schemas/api-types.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import { declaredNames } from '../typed-query.ts'
import { type AccessRules, type Lookup, type Right, ROLE_NAMES, type RoleName, within } from './access.ts'
import {
  fieldsOf,
  ownName,
  type Rule,
  ruleProblem,
  variableIn,
  variablesOf,
  wholeLookupsOf,
} from './rule-language.ts'

/**
 * Checks that the fields of the rules and the lookups that they use exist, and that types match.
 * @param others the declarations of the collections that lookups read
 * @throws Problem `validation_failed` that names the rule
 */
export function checkAccess(declared: Declaration, others: ReadonlyMap<string, Declaration>): void {
  for (const [name, lookup] of Object.entries(declared.rules.lookups))
    within(`lookups/${name}`, () => checkLookup(lookup, others.get(lookup.collection)))
  for (const role of ROLE_NAMES) {
    checkReadable(role, declared.rules[role])
    for (const [right, rule] of Object.entries(declared.rules[role]))
      if (typeof rule === 'object')
        within(`${role}/${right}`, () => checkRule(rule, { role, right: right as Right, declared }))
  }
}

/** An update returns the whole document, a delete reveals if it exists, and aggregates are of the documents that may be read. */
function checkReadable(
  role: RoleName,
  { read, update = false, delete: remove = false, aggregate = false }: AccessRules[RoleName],
): void {
  const isClosed = read === false || (read === undefined && role === 'user')
  if (!isClosed || (update === false && remove === false && aggregate === false)) return
  const whose = role === 'anon' ? 'anon keys' : 'users'
  const detail = `${whose} that may update, delete or aggregate must be able to read`
  throw bodyProblem(`/access/${role}/read`, detail, `access: ${detail}`)
}

function checkRule(
  rule: Rule,
  { role, right, declared }: { role: RoleName; right: Right; declared: Declaration },
): void {
  const variables = variablesOf(rule)
  if (right !== 'update' && variables.some(([kind]) => kind === 'old'))
    throw ruleProblem('$old can be used only in a rule for update.')
  if (role === 'anon' && variables.some(([kind]) => kind !== 'now' && kind !== 'old'))
    throw ruleProblem(
      'A rule for anon keys can use only the variables $now and $old, because an anon key has no user.',
    )
  for (const [kind, name = ''] of variables) if (kind === 'lookups') checkLookupName(ownName(name), declared)
  const old = variables.flatMap(([kind, name = '']): Path[] => (kind === 'old' ? [[name]] : []))
  checkFieldsOf([...fieldsOf(rule), ...old], declared)
  checkTypes(rule, declared)
  checkPatterns(rule)
}

function checkPatterns(rule: Rule): void {
  if (patternCharsOf(rule) > COLLECTION_LIMITS.rulePatternCharsMax)
    throw ruleProblem(
      `The patterns of a rule have at most ${COLLECTION_LIMITS.rulePatternCharsMax} characters together.`,
    )
}

function patternCharsOf(rule: Rule): number {
  if ('of' in rule) return rule.of.reduce((sum, part) => sum + patternCharsOf(part), 0)
  return rule.kind === 'filter' ? patternChars(rule.filter) : 0
}

/** @throws Problem unless the collection is declared, and has the fields; what is looked up may not depend on lookups */
function checkLookup({ collection, field, rule }: Lookup, declared: Declaration | undefined): void {
  if (declared === undefined)
    throw ruleProblem(`The collection ${collection} is not declared in this workspace.`)
  if (variablesOf(rule).some(([kind]) => kind === 'lookups' || kind === 'old'))
    throw ruleProblem('The filter of a lookup cannot use another lookup or $old.')
  checkFieldsOf([field, ...fieldsOf(rule)], declared)
  checkTypes(rule, declared)
  checkPatterns(rule)
}

function checkLookupName(name: string, { rules: { lookups } }: Declaration): void {
  if (!Object.hasOwn(lookups, name))
    throw ruleProblem(`There is no lookup ${name.slice(0, 100)}${hintOf(name, Object.keys(lookups))}`)
}

function checkFieldsOf(paths: readonly Path[], declared: Declaration): void {
  const known = declaredNames(declared)
  for (const [name] of paths)
    if (!known.includes(name))
      throw ruleProblem(`${pathText([name]).slice(0, 100)} is no declared field${hintOf(name, known)}`)
}

function hintOf(name: string, known: readonly string[]): string {
  const near = nearest(name, known)
  return near === undefined ? '' : `; did you mean ${near}?`
}

function checkTypes(rule: Rule, declared: Declaration): void {
  if ('of' in rule) {
    for (const part of rule.of) checkTypes(part, declared)
  } else if (rule.kind === 'compared') {
    for (const sample of samplesOf(rule))
      compileFilter(typed(sample, declared), tableOf({ name: '', declared }).resolve)
  } else if (rule.kind === 'filter') {
    compileFilter(typed(rule.filter, declared), tableOf({ name: '', declared }).resolve)
  }
}

/** Comparisons with texts in the place of the variables whose type is known: those of claims is not. */
function samplesOf({ path, operator, operand }: Extract<Rule, { kind: 'compared' }>): Filter[] {
  return [operand].flat().flatMap((value): Filter[] => {
    const [name] = variableIn(value) ?? []
    if (name !== 'id' && name !== 'email' && name !== 'now') return []
    const sample = name === 'now' ? new Date(0).toISOString() : 'text'
    const isOrder = operator === 'gt' || operator === 'gte' || operator === 'lt' || operator === 'lte'
    const test = isOrder
      ? ({ op: operator, value: [sample] } as const)
      : ({ op: 'in', values: [[sample]] } as const)
    if (operator === 'cs' || operator === 'ov') return []
    return [{ kind: 'test', path, test, not: false }]
  })
}

/** A finding about a declaration that is accepted all the same. */
export interface DeclarationWarning {
  readonly pointer: string
  readonly detail: string
}

/** Filters without a test, as templates and generators leave them: each stands for `true` or `false`. */
export function rulesWithoutTests(declared: Declaration): DeclarationWarning[] {
  return ROLE_NAMES.flatMap((role) =>
    Object.entries(declared.rules[role]).flatMap(([right, rule]) => {
      const decided = typeof rule === 'object' ? constantOf(rule) : undefined
      if (decided === undefined) return []
      const detail = `The rule has no test and admits ${decided ? 'every' : 'no'} document: write ${decided}.`
      return [{ pointer: `/access/${role}/${right}`, detail }]
    }),
  )
}

/**
 * Warns of what a declaration leaves open to more than a reader may expect.
 * @param isOpen the setting `anon.collections` of the workspace is `read`
 */
export function openRules({ access, rules }: Declaration, isOpen: boolean): DeclarationWarning[] {
  if (rules.anon.read === undefined) {
    const detail = `Every anon key of the workspace can read every document: the declaration has no \`access\`, and the setting anon.collections is "read". Add \`"access": {"anon": {"read": false}}\` to close it.`
    return isOpen ? [{ pointer: '/access', detail }] : []
  }
  const found: DeclarationWarning[] = []
  const warn = (pointer: string, detail: string) => found.push({ pointer: `/access/${pointer}`, detail })
  const isLimited = access.user !== undefined && rules.user.read !== true
  if (rules.anon.read === true && isLimited)
    warn(
      'anon/read',
      'Everybody with an anon key reads every document, also those that access.user.read hides from users.',
    )
  for (const right of ['update', 'delete'] as const)
    if (rules.anon[right] === true)
      warn(`anon/${right}`, `Everybody with an anon key may ${right} every document that anon keys may read.`)
  const { read, update, delete: remove } = rules.user
  if (read === true && rules.anon.read !== true)
    warn('user/read', 'Every user of the workspace reads the documents of all users.')
  if (update === true) warn('user/update', 'Every user may update every document that users may read.')
  if (remove === true) warn('user/delete', 'Every user may delete every document that users may read.')
  return found
}

/** Rules with tests that a truncated lookup leaves unknown, such as negated ones: the users with long lists find nothing. */
export function rulesOfWholeLookups(declared: Declaration): DeclarationWarning[] {
  return ROLE_NAMES.flatMap((role) =>
    Object.entries(declared.rules[role]).flatMap(([right, rule]) => {
      const names = typeof rule === 'object' ? [...new Set(wholeLookupsOf(rule))] : []
      return names.map((name) => ({
        pointer: `/access/${role}/${right}`,
        detail: `The rule needs the whole list $lookups.${ownName(name)}. For a user with more than ${COLLECTION_LIMITS.ruleLookupValuesMax} values there, the test matches no document.`,
      }))
    }),
  )
}

/** What a rule without any test decides; undefined for a rule with one. */
function constantOf(rule: Rule | Filter): boolean | undefined {
  if (rule.kind === 'filter') return constantOf(rule.filter)
  if (!('of' in rule)) return undefined
  const parts = rule.of.map(constantOf)
  if (parts.includes(undefined)) return undefined
  return rule.kind === 'all' ? !parts.includes(false) : parts.includes(true)
}

/** Read rules that no index serves: each page then reads the whole collection. */
export function unservedRules(declared: Declaration): DeclarationWarning[] {
  const served = servedBy(declared)
  return ROLE_NAMES.flatMap((role) => {
    const { read } = declared.rules[role]
    if (typeof read !== 'object' || constantOf(read) !== undefined || isServed(read, served)) return []
    const names = [...new Set(equalFields(read))]
    const wanted = names.length === 0 ? 'the field that narrows it most' : names.join(' or ')
    const pointer = `/access/${role}/read`
    return [{ pointer, detail: `No index begins with ${wanted}, so each query reads all documents.` }]
  })
}

/** True if each way to match the rule compares the first field of an index for equality. */
function isServed(rule: Rule, served: Served): boolean {
  if (rule.kind === 'any') return rule.of.length > 0 && rule.of.every((part) => isServed(part, served))
  if (rule.kind === 'all') return rule.of.some((part) => isServed(part, served))
  // Decided once for a query, whatever the documents.
  if (rule.kind === 'caller') return true
  return (
    equalFields(rule).some((name) => served.values.has(name)) ||
    containingFields(rule).some((name) => served.elements.has(name))
  )
}

/** Fields by which an index finds documents: by their values, and by elements of their arrays. */
interface Served {
  readonly values: ReadonlySet<string | undefined>
  readonly elements: ReadonlySet<string | undefined>
}

function servedBy({ indexes }: Declaration): Served {
  const isOfElements = ({ kind, leakproof }: Index) => kind === 'array' && leakproof === true
  return {
    values: new Set(indexes.filter(isOfAll).map(({ fields }) => fields[0])),
    elements: new Set(indexes.filter(isOfElements).map(({ fields }) => fields[0])),
  }
}

/** The fields whose arrays are to contain a value of the caller, or a constant. */
function containingFields(rule: Rule): string[] {
  if ('of' in rule || rule.kind === 'caller') return []
  if (rule.kind === 'filter') return containingFieldsOf(rule.filter)
  const contains = !rule.not && (rule.operator === 'cs' || rule.operator === 'ov')
  return contains && rule.path.length === 1 ? [rule.path[0]] : []
}

function containingFieldsOf(filter: Filter): string[] {
  if (filter.kind === 'all') return filter.of.flatMap(containingFieldsOf)
  if (filter.kind !== 'test' || filter.not || filter.path.length > 1) return []
  return filter.test.op === 'array' && filter.test.how !== 'cd' ? [filter.path[0]] : []
}

function equalFields(rule: Rule): string[] {
  if ('of' in rule) return rule.of.flatMap(equalFields)
  if (rule.kind === 'caller') return []
  if (rule.kind === 'filter') return equalFieldsOf(rule.filter)
  const isEqual = !rule.not && (rule.operator === 'eq' || rule.operator === 'in')
  return isEqual && rule.path.length === 1 ? [rule.path[0]] : []
}

function equalFieldsOf(filter: Filter): string[] {
  if ('of' in filter) return filter.of.flatMap(equalFieldsOf)
  const isEqual = filter.kind === 'test' && !filter.not && filter.test.op === 'in'
  return isEqual && filter.path.length === 1 ? [filter.path[0]] : []
}
