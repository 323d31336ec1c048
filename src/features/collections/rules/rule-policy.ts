/**
 * Compiles rules to conditions of row-level security policies, and of the trigger that compares a row with the one before. What a
 * user wrote is a value of the condition, never part of its text; `postgres/table-policies.ts` makes it a quoted literal.
 */

import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { type Column, compileFilter } from '../postgres/compile.ts'
import { tableOf } from '../postgres/table.ts'
import type { RowConditions } from '../postgres/table-policies.ts'
import type { Comparison, Filter } from '../query/filter.ts'
import { typed } from '../query/typed-filter.ts'
import type { Scalar } from '../schemas/columns.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import type { RoleName } from './access.ts'
import {
  literalOf,
  type Rule,
  testsOfPart,
  type Variable,
  variableIn,
  variablesIn,
  variablesOf,
  wholeLookupsOf,
} from './rule-language.ts'

/** The condition of a row alone: a policy sees one state of it, so comparisons with the row before admit every row. */
const policyCondition = (rule: Rule, declared: Declaration): Sql =>
  compileRule(rule, { declared, seesOld: false })

/** The condition of an updated row beside `before`, a row of the same table; undefined if the rule compares with no such row. */
function transitionCondition(rule: Rule, declared: Declaration): Sql | undefined {
  if (!variablesOf(rule).some(([kind]) => kind === 'old')) return undefined
  return compileRule(rule, { declared, seesOld: true })
}

/** The conditions under which anon keys and users may access rows of the declaration's table. */
export function rowConditions(declared: Declaration): RowConditions {
  const conditionsOf = (role: RoleName): RowConditions[RoleName] =>
    Object.fromEntries(
      Object.entries(declared.rules[role]).map(([right, rule]) => [
        right,
        typeof rule === 'boolean'
          ? rule
          : { condition: policyCondition(rule, declared), transition: transitionCondition(rule, declared) },
      ]),
    )
  const isSilent = Object.keys(declared.access).length === 0
  return {
    anon: isSilent ? { read: 'anon_setting' } : conditionsOf('anon'),
    user: conditionsOf('user'),
  }
}

interface Target {
  readonly declared: Declaration
  /** True if the condition has the row `before`. */
  readonly seesOld: boolean
}

function compileRule(rule: Rule, target: Target): Sql {
  const { declared } = target
  switch (rule.kind) {
    case 'all':
    case 'any': {
      const parts = rule.of.map((part) => compileRule(part, target))
      const [first, ...rest] = parts
      if (first === undefined) return rule.kind === 'all' ? sql`true` : sql`false`
      const by = rule.kind === 'all' ? sql` and ` : sql` or `
      return sql`(${rest.reduce((all, part) => sql`${all}${by}${part}`, first)})`
    }
    case 'filter':
      return compileFilter(typed(rule.filter, declared), tableOf({ name: '', declared }).resolve)
    case 'caller':
      return compileCallerTest(rule)
    case 'compared':
      return compileComparison(rule, target)
  }
}

/** The value of the caller as jsonb, null if there is none. The subquery runs once for each statement. */
function callerJson([name, claim]: Variable): Sql {
  if (name === 'now') return sql`to_jsonb((select now()))`
  const value = claim === undefined ? sql`${name}::text` : sql`${name}::text, ${claim}::text`
  return sql`(select nullif(tenon.caller() #> array[${value}], 'null'))`
}

const callerText = ([name]: Variable): Sql => sql`(select tenon.caller() ->> ${name}::text)`

/** True if the list of a lookup is not truncated. */
const isWhole = (name: string): Sql =>
  sql`(select tenon.caller() #> array['truncated'::text, ${name}::text] is null)`

function compileCallerTest({ variable, filter }: Extract<Rule, { kind: 'caller' }>): Sql {
  const compiled = (of: Filter) => compileFilter(of, () => ({ sql: callerJson(variable), type: 'jsonb' }))
  if (variable[0] !== 'lookups') return compiled(filter)
  return sql`case when ${isWhole(variable[1])} then ${compiled(filter)} else ${compiled(testsOfPart(filter))} end`
}

type Compared = Extract<Rule, { kind: 'compared' }>

function compileComparison(rule: Compared, target: Target): Sql {
  const holds = compileWhole(rule, target)
  return wholeLookupsOf(rule).reduce((all, name) => sql`(${isWhole(name)} and ${all})`, holds)
}

/** The comparison with values that are all known. */
function compileWhole(rule: Compared, { declared, seesOld }: Target): Sql {
  const { path, operator, operand, not } = rule
  const old = variablesIn(operand).find(([kind]) => kind === 'old')
  if (old !== undefined && !seesOld) return sql`true`
  const format = path.length === 1 ? declared.formats.get(path[0]) : undefined
  const resolve = tableOf({ name: '', declared }).resolve
  const column = resolve(path, format)
  const jsonOfVariable = (variable: Variable): Sql =>
    variable[0] === 'old' ? sql`(select ${jsonOf(resolve([variable[1]]))} from before)` : callerJson(variable)
  const test = compileOperator(column, { operator, operand, format, jsonOfVariable })
  const present = sql`${jsonOf(column)} is not null`
  const isPositive = not === (operator === 'neq')
  const known = knownOf(rule, declared, jsonOfVariable)
  const holds =
    Array.isArray(operand) && variablesIn(operand).length > 0 ? sql`(${known} and (${test}))` : test
  const decided = isPositive ? holds : sql`(${known} and ${present} and (${test}) is not true)`
  const isEquality = operator === 'eq' || operator === 'neq'
  if (old === undefined || !isEquality || Array.isArray(operand)) return decided
  // A field that was absent, compared for equality: it still is.
  const isSame = isPositive ? sql`${jsonOf(column)} is null` : present
  return sql`(coalesce(${decided}, false) or (${jsonOfVariable(old)} is null and ${isSame}))`
}

/** True if each variable of the operand has a value that can be compared with the field. */
function knownOf(
  { path, operator, operand }: Compared,
  { scalars }: Declaration,
  jsonOfVariable: (variable: Variable) => Sql,
): Sql {
  const scalar = path.length === 1 ? scalars.get(path[0]) : undefined
  const isList = operator === 'in' && !Array.isArray(operand)
  const known = variablesIn(operand).map((variable) => isComparable(jsonOfVariable(variable), scalar, isList))
  return known.reduce((all, one) => sql`${all} and ${one}`, sql`true`)
}

const JSON_TYPES: Readonly<Record<Scalar, string>> = {
  string: 'string',
  integer: 'number',
  number: 'number',
  boolean: 'boolean',
}

/** True if there is a value, and it has the declared type of the field: of a list, each element. */
function isComparable(value: Sql, scalar: Scalar | undefined, isList: boolean): Sql {
  const type = scalar === undefined ? sql`` : sql` <> ${JSON_TYPES[scalar]}::text`
  if (!isList)
    return scalar === undefined ? sql`${value} is not null` : sql`(jsonb_typeof(${value})${type}) is false`
  const isArray = sql`(jsonb_typeof(${value}) = 'array') is true`
  if (scalar === undefined) return isArray
  return sql`(${isArray} and not exists (select from ${elementsOf(value)} where jsonb_typeof(e)${type}))`
}

/** The value that a field is compared with. */
interface Operand {
  readonly operator: Compared['operator']
  readonly operand: unknown
  /** Of the field: its canonical text is compared with that of the value. */
  readonly format: string | undefined
  readonly jsonOfVariable: (variable: Variable) => Sql
}

function compileOperator(column: Column, on: Operand): Sql {
  switch (on.operator) {
    case 'eq':
    case 'neq':
      return equal(column, on)
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return compared(column, on.operator, on)
    case 'in':
      return among(column, on)
    case 'cs':
    case 'ov':
      return containing(column, on.operator, on)
  }
}

function equal(column: Column, on: Operand): Sql {
  const variable = variableIn(on.operand)
  if (variable !== undefined && isTimestamp(column, variable)) return sql`${column.sql} = (select now())`
  // Texts of the platform, compared as texts: such a condition uses an index and may be evaluated before others.
  if (
    column.type === 'text' &&
    on.format === undefined &&
    (variable?.[0] === 'id' || variable?.[0] === 'email')
  )
    return sql`${column.sql} = ${callerText(variable)}`
  return sql`${jsonOf(column)} = ${operandJson(on)}`
}

const SIGNS: Readonly<Record<Comparison, Sql>> = { gt: sql`>`, gte: sql`>=`, lt: sql`<`, lte: sql`<=` }

function compared(column: Column, operator: Comparison, on: Operand): Sql {
  const variable = variableIn(on.operand)
  const sign = SIGNS[operator]
  if (variable !== undefined && isTimestamp(column, variable))
    return sql`${column.sql} ${sign} (select now())`
  const [value, bound] = [jsonOf(column), operandJson(on)]
  return sql`case jsonb_typeof(${bound})
    when 'number' then jsonb_typeof(${value}) = 'number' and ${value} ${sign} ${bound}
    when 'string' then jsonb_typeof(${value}) = 'string'
      and (${value} #>> '{}') collate "C" ${sign} (${bound} #>> '{}') else false end`
}

/** A list in the rule, or a list that the caller has. */
function among(column: Column, on: Operand): Sql {
  const { operand, format } = on
  if (Array.isArray(operand)) {
    const tests = operand.map((value) => equal(column, { ...on, operand: value }))
    return tests.reduce((any, test) => sql`${any} or ${test}`, sql`false`)
  }
  const element = format === undefined ? sql`e` : canonicalJson(sql`e`, format)
  const list = elementsOf(operandJson({ ...on, format: undefined }))
  return sql`exists (select from ${list} where ${jsonOf(column)} = ${element})`
}

const elementsOf = (list: Sql): Sql =>
  sql`jsonb_array_elements(case jsonb_typeof(${list}) when 'array' then ${list} end) each(e)`

function containing(column: Column, how: 'cs' | 'ov', on: Operand): Sql {
  const value = jsonOf(column)
  const elementJson = (operand: unknown) => operandJson({ ...on, operand, format: undefined })
  const list = Array.isArray(on.operand)
    ? sql`jsonb_build_array(${on.operand.map(elementJson).reduce((all, one) => sql`${all}, ${one}`)})`
    : elementJson(on.operand)
  const isArray = sql`jsonb_typeof(${value}) = 'array' and jsonb_typeof(${list}) = 'array'`
  if (how === 'cs') return sql`(${isArray} and ${value} @> ${list})`
  return sql`(${isArray} and exists (select from ${elementsOf(list)} where ${value} @> jsonb_build_array(e)))`
}

const isTimestamp = ({ type }: Column, [name]: Variable) => type === 'timestamptz' && name === 'now'

/** The column's value as jsonb, SQL null for JSON null. */
function jsonOf({ sql: value, type }: Column): Sql {
  return type === 'jsonb' ? sql`nullif(${value}, 'null')` : sql`to_jsonb(${value})`
}

function operandJson({ operand, format, jsonOfVariable }: Operand): Sql {
  const variable = variableIn(operand)
  const value =
    variable === undefined ? sql`${JSON.stringify(literalOf(operand))}::jsonb` : jsonOfVariable(variable)
  return format === undefined ? value : canonicalJson(value, format)
}

const canonicalJson = (value: Sql, format: string): Sql =>
  sql`to_jsonb(tenon.canonical(${format}::text, case jsonb_typeof(${value}) when 'string' then ${value} #>> '{}' end))`
