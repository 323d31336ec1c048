/**
 * Compiles rules to conditions of row-level security policies. Each condition is a template without any text of a user, and
 * the literals for its numbered places; tenon.set_policies (collection-tables.sql) quotes these.
 */

import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { type Column, compileFilter } from '../postgres/compile.ts'
import { tableOf } from '../postgres/table.ts'
import type { Comparison } from '../query/filter.ts'
import type { Scalar } from '../schemas/columns.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import { typed } from '../typed-query.ts'
import { literalOf, type Rule, type Variable, variableIn, variablesIn } from './rule-language.ts'

/** `template`: for PostgreSQL's `format`, with `%1$L` for the first of the literals. */
export interface PolicyCondition {
  readonly template: string
  readonly literals: readonly (string | null)[]
}

export function policyCondition(rule: Rule, declared: Declaration): PolicyCondition {
  const { text, values } = compileRule(rule, declared)
  const template = text.replaceAll('%', '%%').replaceAll(/\$([0-9]+)/g, '%$1$$L')
  return { template, literals: values }
}

function compileRule(rule: Rule, declared: Declaration): Sql {
  switch (rule.kind) {
    case 'all':
    case 'any': {
      const parts = rule.of.map((part) => compileRule(part, declared))
      const [first, ...rest] = parts
      if (first === undefined) return rule.kind === 'all' ? sql`true` : sql`false`
      const by = rule.kind === 'all' ? sql` and ` : sql` or `
      return sql`(${rest.reduce((all, part) => sql`${all}${by}${part}`, first)})`
    }
    case 'filter':
      return compileFilter(typed(rule.filter, declared), tableOf({ name: '', declared }).resolve)
    case 'caller':
      return compileFilter(rule.filter, () => ({ sql: callerJson(rule.variable), type: 'jsonb' }))
    case 'compared':
      return compileComparison(rule, declared)
  }
}

/** The value of the caller as jsonb, null if there is none. The subquery runs once for each statement. */
function callerJson([name, claim]: Variable): Sql {
  if (name === 'now') return sql`to_jsonb((select now()))`
  const value = claim === undefined ? sql`${name}::text` : sql`${name}::text, ${claim}::text`
  return sql`(select nullif(tenon.caller() #> array[${value}], 'null'))`
}

const callerText = ([name]: Variable): Sql => sql`(select tenon.caller() ->> ${name}::text)`

type Compared = Extract<Rule, { kind: 'compared' }>

function compileComparison({ path, operator, operand, not }: Compared, declared: Declaration): Sql {
  // A policy sees one state of a row; the update compares both before it is sent.
  if (variablesIn(operand).some(([kind]) => kind === 'old')) return sql`true`
  const format = path.length === 1 ? declared.formats.get(path[0]) : undefined
  const column = tableOf({ name: '', declared }).resolve(path, format)
  const test = compileOperator(column, operator, operand, format)
  if (not === (operator === 'neq')) return test
  const scalar = path.length === 1 ? declared.scalars.get(path[0]) : undefined
  const isList = operator === 'in' && !Array.isArray(operand)
  const known = variablesIn(operand).map((variable) => isComparable(callerJson(variable), scalar, isList))
  const present = jsonOf(column)
  return sql`(${known.reduce((all, one) => sql`${all} and ${one}`, sql`${present} is not null`)} and (${test}) is not true)`
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

function compileOperator(
  column: Column,
  operator: Compared['operator'],
  operand: unknown,
  format?: string,
): Sql {
  switch (operator) {
    case 'eq':
    case 'neq':
      return equal(column, operand, format)
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return compared(column, operator, operand, format)
    case 'in':
      return among(column, operand, format)
    case 'cs':
    case 'ov':
      return containing(column, operator, operand)
  }
}

function equal(column: Column, operand: unknown, format?: string): Sql {
  const variable = variableIn(operand)
  if (variable !== undefined && isTimestamp(column, variable)) return sql`${column.sql} = (select now())`
  // Texts of the platform, compared as texts: such a condition uses an index and may be evaluated before others.
  if (column.type === 'text' && format === undefined && (variable?.[0] === 'id' || variable?.[0] === 'email'))
    return sql`${column.sql} = ${callerText(variable)}`
  return sql`${jsonOf(column)} = ${operandJson(operand, format)}`
}

const SIGNS: Readonly<Record<Comparison, Sql>> = { gt: sql`>`, gte: sql`>=`, lt: sql`<`, lte: sql`<=` }

function compared(column: Column, operator: Comparison, operand: unknown, format?: string): Sql {
  const variable = variableIn(operand)
  const sign = SIGNS[operator]
  if (variable !== undefined && isTimestamp(column, variable))
    return sql`${column.sql} ${sign} (select now())`
  const [value, bound] = [jsonOf(column), operandJson(operand, format)]
  return sql`case jsonb_typeof(${bound})
    when 'number' then jsonb_typeof(${value}) = 'number' and ${value} ${sign} ${bound}
    when 'string' then jsonb_typeof(${value}) = 'string'
      and (${value} #>> '{}') collate "C" ${sign} (${bound} #>> '{}') else false end`
}

/** A list in the rule, or a list that the caller has. */
function among(column: Column, operand: unknown, format?: string): Sql {
  if (Array.isArray(operand)) {
    const tests = operand.map((value) => equal(column, value, format))
    return tests.reduce((any, test) => sql`${any} or ${test}`, sql`false`)
  }
  const element = format === undefined ? sql`e` : canonicalJson(sql`e`, format)
  return sql`exists (select from ${elementsOf(operandJson(operand))} where ${jsonOf(column)} = ${element})`
}

const elementsOf = (list: Sql): Sql =>
  sql`jsonb_array_elements(case jsonb_typeof(${list}) when 'array' then ${list} end) each(e)`

function containing(column: Column, how: 'cs' | 'ov', operand: unknown): Sql {
  const value = jsonOf(column)
  const list = Array.isArray(operand)
    ? sql`jsonb_build_array(${operand.map((one) => operandJson(one)).reduce((all, one) => sql`${all}, ${one}`)})`
    : operandJson(operand)
  const isArray = sql`jsonb_typeof(${value}) = 'array' and jsonb_typeof(${list}) = 'array'`
  if (how === 'cs') return sql`(${isArray} and ${value} @> ${list})`
  return sql`(${isArray} and exists (select from ${elementsOf(list)} where ${value} @> jsonb_build_array(e)))`
}

const isTimestamp = ({ type }: Column, [name]: Variable) => type === 'timestamptz' && name === 'now'

/** The column's value as jsonb, SQL null for JSON null. */
function jsonOf({ sql: value, type }: Column): Sql {
  return type === 'jsonb' ? sql`nullif(${value}, 'null')` : sql`to_jsonb(${value})`
}

/** @param format of the field: its canonical text is compared with that of the value */
function operandJson(operand: unknown, format?: string): Sql {
  const variable = variableIn(operand)
  const value =
    variable === undefined ? sql`${JSON.stringify(literalOf(operand))}::jsonb` : callerJson(variable)
  return format === undefined ? value : canonicalJson(value, format)
}

const canonicalJson = (value: Sql, format: string): Sql =>
  sql`to_jsonb(tenon.canonical(${format}::text, case jsonb_typeof(${value}) when 'string' then ${value} #>> '{}' end))`
