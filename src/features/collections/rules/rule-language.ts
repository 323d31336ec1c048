/**
 * The language of rules on documents: `true`, `false`, or a filter of the structured query grammar that may also use values of
 * the caller (`$user.id`, `$user.email`, `$user.claims.<name>`) and the time (`$now`), as docs/access.md describes it.
 */

import { nearest } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import { exceedsDepth, isObject } from '../../../core/json.ts'
import { readUserVariable, type UserVariable } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { readBodyFilter } from '../query/body.ts'
import { type Filter, negated, type Path, pathsOf } from '../query/filter.ts'
import { readPath } from '../query/syntax.ts'

/** A value of the user, or the time. */
export type Variable =
  | UserVariable
  | readonly ['lookups', string]
  /** A field of the document before an update. */
  | readonly ['old', string]
  | readonly ['now']

/** A rule, with negations moved down to its tests. */
export type Rule =
  | { readonly kind: 'all' | 'any'; readonly of: readonly Rule[] }
  /** Depends on the document alone. */
  | { readonly kind: 'filter'; readonly filter: Filter; readonly source: TestSource }
  /** Compares a field with values of the caller, which stand in the operand as {@link variableIn} reads them. */
  | {
      readonly kind: 'compared'
      readonly field: string
      readonly path: Path
      readonly operator: RuleOperator
      readonly operand: unknown
      readonly not: boolean
    }
  /** Tests a value of the caller: a filter on the field `value`. */
  | {
      readonly kind: 'caller'
      readonly variable: Variable
      readonly filter: Filter
      readonly source: TestSource
    }

/** A test as the rule spells it; `not` if it stands below a negation. */
interface TestSource {
  readonly test: Readonly<Record<string, unknown>>
  readonly not: boolean
}

/** Operators that take values of the caller. */
const OPERATORS = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in', 'cs', 'ov'] as const
type RuleOperator = (typeof OPERATORS)[number]

/** The rule as it is declared. */
export type RuleSource = boolean | Readonly<Record<string, unknown>>

/** @throws Problem `validation_failed` or that of the query grammar */
export function readRule(source: Exclude<RuleSource, boolean>): Rule {
  if (
    exceedsDepth(source, RULE_JSON_DEPTH_MAX) ||
    JSON.stringify(source).length > COLLECTION_LIMITS.ruleCharsMax
  )
    throw ruleProblem(
      `A rule has at most ${COLLECTION_LIMITS.ruleCharsMax} characters, and ${COLLECTION_LIMITS.ruleDepthMax} levels.`,
    )
  return new RuleReader().read(source)
}

/** Each level of a rule is an object in an array; the deepest values of all are those of `cs`. */
const RULE_JSON_DEPTH_MAX = 2 * COLLECTION_LIMITS.ruleDepthMax + 6

/** With the collection that declares it, as {@link qualified} writes it, or without. */
const LOOKUP = /^\$lookups\.((?:[A-Za-z_][A-Za-z0-9_-]{0,62}\/)?[A-Za-z0-9_-]{1,64})$/
const OLD = /^\$old\.([^.]{1,200})$/
const NAMES = ['$user.id', '$user.email', '$user.claims.<name>', '$lookups.<name>', '$old.<field>', '$now']

/**
 * The variable that a text names; undefined for a text that begins with no `$`.
 * @throws Problem `validation_failed` for a text that begins with `$` and names none
 */
export function variableIn(text: unknown): Variable | undefined {
  if (typeof text !== 'string' || !text.startsWith('$') || text.startsWith('$$')) return undefined
  if (text === '$now') return ['now']
  const [, lookup] = LOOKUP.exec(text) ?? []
  if (lookup !== undefined) return ['lookups', lookup]
  const [, field] = OLD.exec(text) ?? []
  if (field !== undefined) return ['old', field]
  const ofUser = readUserVariable(text.slice(1))
  if (ofUser !== undefined) return ofUser
  const near = nearest(text, NAMES)
  throw ruleProblem(
    `There is no variable ${text.slice(0, 100)}${near === undefined ? '' : `; did you mean ${near}?`}`,
    `The variables are ${NAMES.join(', ')}. Write a text that begins with a dollar sign with two of them.`,
  )
}

/** The variables of an operand: itself, or elements of a list. */
export function variablesIn(operand: unknown): Variable[] {
  const values: unknown[] = Array.isArray(operand) ? operand : [operand]
  return values.flatMap((value) => {
    const variable = variableIn(value)
    return variable === undefined ? [] : [variable]
  })
}

/** The text that is meant: a dollar sign at its beginning is doubled in rules. */
export const literalOf = (value: unknown): unknown =>
  typeof value === 'string' && value.startsWith('$$') ? value.slice(1) : value

export const ruleProblem = (detail: string, hint?: string): Problem =>
  new Problem('validation_failed', { detail, ...(hint !== undefined && { hint }) })

/** True if a text in the value begins with a dollar sign: a variable, or a text that is written with two. */
function hasDollar(value: unknown): boolean {
  if (typeof value === 'string') return value.startsWith('$')
  return typeof value === 'object' && value !== null && Object.values(value).some(hasDollar)
}

class RuleReader {
  #tests = 0

  read(source: Readonly<Record<string, unknown>>): Rule {
    return this.#all(source, false, 0)
  }

  #all(source: Readonly<Record<string, unknown>>, not: boolean, depth: number): Rule {
    if (depth > COLLECTION_LIMITS.ruleDepthMax)
      throw ruleProblem(`Rules are nested at most ${COLLECTION_LIMITS.ruleDepthMax} deep.`)
    const of = Object.entries(source).map(([key, value]) => this.#member(key, value, not, depth))
    return { kind: not ? 'any' : 'all', of }
  }

  #member(key: string, value: unknown, not: boolean, depth: number): Rule {
    if (key === '$not') return this.#all(objectOf(key, value), !not, depth + 1)
    if (key === '$and' || key === '$or') {
      if (!Array.isArray(value)) throw ruleProblem(`${key} takes an array of filters.`)
      const kind = (key === '$or') === not ? 'all' : 'any'
      return { kind, of: value.map((one) => this.#all(objectOf(key, one), not, depth + 1)) }
    }
    this.#spend()
    if (variableIn(key) !== undefined) return callerTest(key, value, not)
    if (!hasDollar(value)) return filterOf({ [key]: value }, not)
    const tests = isObject(value) ? Object.entries(value) : [['eq', value] as const]
    const of = tests.map(([name, operand]) => this.#test(key, name.replace(/^\$/, ''), operand, not))
    return { kind: not ? 'any' : 'all', of }
  }

  #test(field: string, name: string, operand: unknown, not: boolean): Rule {
    this.#spend()
    if (!hasDollar(operand)) return filterOf({ [field]: { [name]: operand } }, not)
    if (name === 'not') {
      const tests = isObject(operand) ? Object.entries(operand) : [['eq', operand] as const]
      const of = tests.map(([inner, value]) => this.#test(field, inner.replace(/^\$/, ''), value, !not))
      return { kind: not ? 'all' : 'any', of }
    }
    const operator = OPERATORS.find((one) => one === (name === 'ne' ? 'neq' : name))
    if (operator === undefined)
      throw ruleProblem(
        `${field.slice(0, 100)}: ${name.slice(0, 50)} takes no variable.`,
        `Use one of ${OPERATORS.join(', ')}.`,
      )
    checkOperand(field, operand)
    const path = readPath(field, { code: 'filter_invalid', in: 'body', name: field })
    return { kind: 'compared', field, path, operator, operand, not }
  }

  #spend(): void {
    this.#tests += 1
    if (this.#tests > COLLECTION_LIMITS.ruleTestsMax)
      throw ruleProblem(`A rule has at most ${COLLECTION_LIMITS.ruleTestsMax} tests.`)
  }
}

/** Variables stand alone, or in a list. */
function checkOperand(field: string, operand: unknown): void {
  const values = Array.isArray(operand) ? operand : [operand]
  for (const value of values) {
    if (typeof value === 'object' && hasDollar(value))
      throw ruleProblem(
        `${field.slice(0, 100)}: a variable must be a whole value or an element of a list, not a part of a value.`,
      )
    variableIn(value)
  }
}

function objectOf(key: string, value: unknown): Readonly<Record<string, unknown>> {
  if (!isObject(value)) throw ruleProblem(`${key} takes filters, which are objects.`)
  return value
}

function filterOf(source: Readonly<Record<string, unknown>>, not: boolean): Rule {
  const filter = readBodyFilter(source)
  return { kind: 'filter', filter: not ? negated(filter) : filter, source: { test: source, not } }
}

function callerTest(key: string, value: unknown, not: boolean): Rule {
  const variable = variableIn(key) ?? ['now']
  if (variable[0] === 'old') throw ruleProblem('A value of the document is compared with a field.')
  if (variable[0] === 'now')
    throw ruleProblem('$now is compared with a field: {"publish_at": {"lte": "$now"}}.')
  if (hasDollar(value)) throw ruleProblem('Two values of the caller are not compared with each other.')
  const filter = readBodyFilter({ value })
  return {
    ...{ kind: 'caller', variable, filter: not ? negated(filter) : filter },
    source: { test: { [key]: value }, not },
  }
}

/** The name of a lookup without its collection, which {@link qualified} has put before it. */
export const ownName = (name: string): string => name.slice(name.indexOf('/') + 1)

/** The rule with the names of lookups as callers have them: `<collection>/<name>`, since two collections may use one name. */
export function qualified(rule: Rule, collection: string): Rule {
  if ('of' in rule) return { ...rule, of: rule.of.map((part) => qualified(part, collection)) }
  if (rule.kind === 'filter') return rule
  const named = (name: string) => `${collection}/${name}`
  if (rule.kind === 'caller') {
    const [kind, name = ''] = rule.variable
    return kind === 'lookups' ? { ...rule, variable: ['lookups', named(name)] } : rule
  }
  const rename = (value: unknown) => {
    const variable = variableIn(value)
    return variable?.[0] === 'lookups' ? `$lookups.${named(variable[1])}` : value
  }
  const { operand } = rule
  return { ...rule, operand: Array.isArray(operand) ? operand.map(rename) : rename(operand) }
}

/** The fields of the document that a rule uses. */
export function fieldsOf(rule: Rule): Path[] {
  switch (rule.kind) {
    case 'all':
    case 'any':
      return rule.of.flatMap(fieldsOf)
    case 'filter':
      return pathsOf(rule.filter)
    case 'compared':
      return [rule.path]
    case 'caller':
      return []
  }
}

/** The variables that a rule uses. */
export function variablesOf(rule: Rule): Variable[] {
  switch (rule.kind) {
    case 'all':
    case 'any':
      return rule.of.flatMap(variablesOf)
    case 'filter':
      return []
    case 'compared':
      return variablesIn(rule.operand)
    case 'caller':
      return [rule.variable]
  }
}

/** True if a comparison that holds for some values of a list holds for the whole list, too. */
export const holdsForPart = ({ operator, operand, not }: Extract<Rule, { kind: 'compared' }>): boolean =>
  !Array.isArray(operand) && (not ? operator === 'cs' : operator === 'in' || operator === 'ov')

/** Of a filter on a list: only the tests that hold for the whole list if they hold for some of its values. */
export function testsOfPart(filter: Filter): Filter {
  if ('of' in filter) return { ...filter, of: filter.of.map(testsOfPart) }
  const holds =
    filter.kind === 'test' && !filter.not && filter.test.op === 'array' && filter.test.how !== 'cd'
  return holds ? filter : { kind: 'unknown', path: filter.path, not: false }
}

/** The lookups whose tests a truncated list leaves unknown, as {@link qualified} names them. */
export function wholeLookupsOf(rule: Rule): string[] {
  if ('of' in rule) return rule.of.flatMap(wholeLookupsOf)
  if (rule.kind === 'filter') return []
  const names = variablesOf(rule).flatMap(([kind, name = '']) => (kind === 'lookups' ? [name] : []))
  if (rule.kind === 'compared') return holdsForPart(rule) ? [] : names
  return JSON.stringify(testsOfPart(rule.filter)) === JSON.stringify(rule.filter) ? [] : names
}
