/** Binds a rule to its caller: the result is a filter without variables, which stores compile like any other. */

import { type Actor, type EndUser, userValue } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { readBodyFilter } from '../query/body.ts'
import { evaluate } from '../query/evaluate.ts'
import { ALL, type Filter, NONE, negated } from '../query/filter.ts'
import { typed } from '../query/typed-filter.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import { type Stored, valueAt } from '../store.ts'
import {
  holdsForPart,
  literalOf,
  type Rule,
  testsOfPart,
  type Variable,
  variableIn,
  variablesIn,
} from './rule-language.ts'

/** What rules compare documents with. */
export interface RuleCaller {
  /** Undefined for anon keys, so that no test of a user's value matches. */
  readonly user?: EndUser | undefined
  /** Values that were looked up, by `<collection>/<name>`. */
  readonly lookups?: Actor['lookups'] | undefined
  readonly now: Date
  /** The document before an update. Without it, comparisons with its fields are deferred. */
  readonly old?: Stored | undefined
}

/** @param declared gives the literals their types, as it does for queries */
export function bindRule(rule: Rule, caller: RuleCaller, declared: Declaration): Filter {
  switch (rule.kind) {
    case 'all':
    case 'any':
      return { kind: rule.kind, of: rule.of.map((part) => bindRule(part, caller, declared)) }
    case 'filter':
      return typedOrUnknown(rule.filter, declared)
    case 'compared':
      return bindComparison(rule, caller, declared)
    case 'caller':
      return bindCallerTest(rule, caller)
  }
}

/** The value of a variable; undefined if the caller has none. */
function callerValue(variable: Variable, { user, lookups, now, old }: RuleCaller): unknown {
  if (variable[0] === 'now') return now.toISOString()
  if (variable[0] === 'old') return old && valueAt(old, [variable[1]])
  if (variable[0] === 'lookups') return lookups?.[variable[1]]?.values
  return user === undefined ? undefined : userValue(user, variable)
}

function bindComparison(
  rule: Extract<Rule, { kind: 'compared' }>,
  caller: RuleCaller,
  declared: Declaration,
): Filter {
  const { field, path, operator, operand, not } = rule
  const variables = variablesIn(operand)
  if (caller.old === undefined && variables.some(([kind]) => kind === 'old'))
    return { kind: 'deferred', path, not }
  const unknown: Filter = { kind: 'unknown', path, not }
  if (variables.some((variable) => isTruncated(variable, caller)) && !holdsForPart(rule)) return unknown
  const bound = Array.isArray(operand)
    ? operand.map((value) => bindOperand(value, caller))
    : bindOperand(operand, caller)
  // A field that was absent, compared for equality: it still is.
  if (isAbsentBefore(operand, bound) && (operator === 'eq' || operator === 'neq'))
    return { kind: 'null', path, not: not !== (operator === 'neq') }
  if (bound === undefined || (Array.isArray(bound) && bound.includes(undefined))) return unknown
  try {
    const filter = readBodyFilter({ [field]: { [operator]: bound } })
    return typedOrUnknown(not ? negated(filter) : filter, declared)
  } catch (error) {
    // The value is of a type that the operator does not take.
    if (error instanceof Problem) return unknown
    throw error
  }
}

const isAbsentBefore = (operand: unknown, bound: unknown): boolean =>
  (bound === undefined || bound === null) && variableIn(operand)?.[0] === 'old'

function bindOperand(operand: unknown, caller: RuleCaller): unknown {
  const variable = variableIn(operand)
  return variable === undefined ? literalOf(operand) : callerValue(variable, caller)
}

/** A test of the caller is decided here. One that neither holds nor fails, since there is no value, stays unknown. */
function bindCallerTest({ variable, filter }: Extract<Rule, { kind: 'caller' }>, caller: RuleCaller): Filter {
  const value = callerValue(variable, caller)
  const valueAt = () => value
  const unknown: Filter = { kind: 'unknown', path: ['value'], not: false }
  if (isTruncated(variable, caller)) return evaluate(testsOfPart(filter), valueAt) ? ALL : unknown
  if (evaluate(filter, valueAt)) return ALL
  return evaluate(negated(filter), valueAt) ? NONE : unknown
}

const isTruncated = ([kind, name = '']: Variable, { lookups }: RuleCaller): boolean =>
  kind === 'lookups' && lookups?.[name]?.isTruncated === true

/** Tests whose value does not have the type of the field match nothing; in a query they are an error. */
function typedOrUnknown(filter: Filter, declared: Declaration): Filter {
  if ('of' in filter) return { ...filter, of: filter.of.map((part) => typedOrUnknown(part, declared)) }
  try {
    return typed(filter, declared)
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    return { kind: 'unknown', path: filter.path, not: false }
  }
}
