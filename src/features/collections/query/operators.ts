/**
 * The query operators of both grammars (url.ts and body.ts): one table from operator names to filters. Stores compile the `Test`s of
 * a filter, not operators. To add an operator:
 * 1. here: a row in `OPERATORS`, and its name in `QUANTIFIED` if it takes `(any)`; if it combines existing `Test`s, go to 6;
 * 2. `filter.ts`: a new kind of `Test`, if none expresses it;
 * 3. `typed-filter.ts`: its literals on a declared field, and on a system field;
 * 4. `../postgres/compile.ts` and `../mongo/compile.ts`: `compileTest`, and `testSystemField` of the latter;
 * 5. `operands.ts`, `url.ts` and `body.ts`: a method of `Operand`, if its operand has a new form;
 * 6. `../rules/rule-language.ts` and `../rules/rule-policy.ts`, if rules may compare with it values of a user;
 * 7. the words for clients: `core/problem-catalogue.ts`, `docs/queries.md`, and the arguments of tools in
 *    `mcp-servers/tool-providers/document-schemas.ts`;
 * 8. a case in `test/conformance/stores/stores.test.ts`, which runs against both stores.
 */

import { nearest } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import {
  type Comparison,
  type Filter,
  type Literal,
  negated,
  type Path,
  type Pattern,
  type Test,
} from './filter.ts'
import type { Container } from './operands.ts'
import { type Budget, refusal, type Source } from './syntax.ts'

/** The operand of an operator, read by its grammar. Every method throws a Problem if the operand does not fit. */
export interface Operand {
  readonly source: Source
  /** JSON null, which equality takes as null or missing. */
  readonly isNull: boolean
  literal(): Literal
  /** A value with an order: a number or a text. */
  comparable(): Literal
  list(): readonly Literal[]
  pattern(): Pattern
  pathTest(): Test
  container(): Container
  /** A word of the grammar itself, in lower case. */
  word(): string
  /** The operands of `(any)` and `(all)`. */
  each(): readonly Operand[]
  /** A filter on other documents. */
  filter(): Filter
  /** The filter with another operator in the syntax of its grammar, for hints. */
  written(operator: string): string
}

type Read = (path: Path, operand: Operand) => Filter

const tested =
  (read: (operand: Operand) => Test): Read =>
  (path, operand) => ({ kind: 'test', path, test: read(operand), not: false })

const compared = (op: Comparison) => tested((operand) => ({ op, value: operand.comparable() }))
const like = (fold: boolean) => tested((operand) => ({ op: 'like', pattern: operand.pattern(), fold }))
const containmentOf = (how: 'cs' | 'cd' | 'ov') => tested((operand) => containment(how, operand))

const equal: Read = (path, operand) =>
  operand.isNull
    ? { kind: 'null', path, not: false }
    : { kind: 'test', path, test: { op: 'in', values: [operand.literal()] }, not: false }

const OPERATORS: Readonly<Record<string, Read>> = {
  eq: equal,
  neq: (path, operand) => negated(equal(path, operand)),
  gt: compared('gt'),
  gte: compared('gte'),
  lt: compared('lt'),
  lte: compared('lte'),
  in: tested((operand) => ({ op: 'in', values: operand.list() })),
  like: like(false),
  ilike: like(true),
  is: readIs,
  isdistinct: (path, operand) => distinct(equal(path, operand)),
  exists: (path, operand) => ({ kind: 'exists', path, not: !booleanOf(operand) }),
  // PostgREST's names: the value contains the operand (@>), is contained in it (<@), overlaps it (&&).
  cs: containmentOf('cs'),
  cd: containmentOf('cd'),
  ov: containmentOf('ov'),
  json_path_eq: tested((operand) => operand.pathTest()),
}

/** Operators that take `(any)` or `(all)`. */
const QUANTIFIED = ['eq', 'like', 'ilike', 'gt', 'gte', 'lt', 'lte']

export const OPERATOR_NAMES: readonly string[] = Object.keys(OPERATORS)

/** Operators on the name of a reference, and whether they are negated: one of its documents matches a filter, or none does. */
const RELATED: Readonly<Record<string, { readonly not: boolean }>> = {
  some: { not: false },
  none: { not: true },
}
export const RELATED_NAMES: readonly string[] = Object.keys(RELATED)

export const isOperator = (name: string): boolean => Object.hasOwn(OPERATORS, name)

/**
 * Applies one operator to one path.
 * @param name as it was written; `quantifier` is the word in parentheses behind it
 */
export function readOperator(
  path: Path,
  { name, quantifier }: { readonly name: string; readonly quantifier?: string | undefined },
  operand: Operand,
  budget: Budget,
): Filter {
  if (quantifier !== undefined) return quantified(path, name, quantifier, operand, budget)
  budget.spend(operand.source)
  if (Object.hasOwn(RELATED, name)) return related(path, name, operand, budget)
  const read = isOperator(name) ? OPERATORS[name] : undefined
  if (read === undefined) throw unknownOperator(name, operand)
  return read(path, operand)
}

function related(path: Path, name: string, operand: Operand, { joins }: Budget): Filter {
  if (!joins)
    throw refusal(operand.source, `The operator ${name} is not available here: it reads other documents.`)
  return { kind: 'related', path, filter: operand.filter(), not: RELATED[name]?.not === true }
}

function quantified(path: Path, name: string, quantifier: string, operand: Operand, budget: Budget): Filter {
  if (!QUANTIFIED.includes(name) || (quantifier !== 'any' && quantifier !== 'all'))
    throw refusal(operand.source, `Only ${QUANTIFIED.join(', ')} can be combined with (any) or (all).`)
  const each = operand.each()
  // `eq(any)` is one lookup, however many values there are.
  if (name === 'eq' && quantifier === 'any') {
    budget.spend(operand.source)
    return { kind: 'test', path, test: { op: 'in', values: each.map((one) => one.literal()) }, not: false }
  }
  const of = each.map((one) => readOperator(path, { name }, one, budget))
  return { kind: quantifier === 'any' ? 'any' : 'all', of }
}

export function unknownOperator(name: string, operand: Pick<Operand, 'source' | 'written'>): Error {
  const near = nearest(name, OPERATOR_NAMES)
  const detail = `There is no operator ${name.slice(0, 50)}. There are ${OPERATOR_NAMES.join(', ')}.`
  const source = { ...operand.source, code: 'filter_operator_unknown' } as const
  return refusal(source, detail, operand.written(near ?? 'eq'))
}

/** SQL's `is`, whose result is never unknown: `not.is.true` matches false, null, a missing member, and any other type. */
function readIs(path: Path, operand: Operand): Filter {
  const word = operand.word()
  if (word === 'null' || word === 'unknown') return { kind: 'null', path, not: false }
  if (word === 'not_null') return { kind: 'null', path, not: true }
  if (word !== 'true' && word !== 'false')
    throw refusal(operand.source, '`is` takes null, not_null, true, false or unknown.', operand.written('eq'))
  const test: Test = { op: 'in', values: [[word === 'true']] }
  return both({ kind: 'null', path, not: true }, { kind: 'test', path, test, not: false })
}

/** Not equal; null and missing values match. */
function distinct(same: Filter): Filter {
  if (same.kind !== 'test') return negated(same)
  const { path } = same
  return negated(both({ kind: 'null', path, not: true }, same))
}

const both = (...of: readonly Filter[]): Filter => ({ kind: 'all', of })

function booleanOf(operand: Operand): boolean {
  const word = operand.word()
  if (word === 'true' || word === 'false') return word === 'true'
  throw refusal(operand.source, '`exists` takes true or false.')
}

function containment(how: 'cs' | 'cd' | 'ov', operand: Operand): Test {
  const { source } = operand
  const container = operand.container()
  const members = 'members' in container ? Object.values(container.members) : container.values.flat()
  if (how === 'cd' && members.some((value) => typeof value === 'object' && value !== null))
    throw refusal(source, 'cd compares with texts, numbers, booleans and null, one level deep.')
  if ('values' in container) return { op: 'array', how, values: container.values }
  if (how === 'ov') throw refusal(source, 'ov takes a list: objects do not overlap.')
  if (how === 'cd' && members.length > COLLECTION_LIMITS.filterMembersMax) {
    const detail = `An object behind cd has at most ${COLLECTION_LIMITS.filterMembersMax} members.`
    throw refusal({ ...source, code: 'filter_too_large' }, detail)
  }
  return { op: 'object', how, members: container.members }
}
