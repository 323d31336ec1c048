/** Maps the arguments of tools over documents to the inputs of the operations that they run. */

import { newBudget } from '../../../../flows-dsl/budget.ts'
import type { Json } from '../../../../flows-dsl/json.ts'
import { schemaErrors } from '../../../../flows-dsl/json-schema/validate.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { JsonSchema, Tool } from '../tool.ts'
import { PAGE_OPTIONS, typeOf, UPDATE_OPTIONS } from './document-schemas.ts'

type Values = Readonly<Record<string, unknown>>

/** The arguments of one call, which its schema allows. */
interface Call {
  readonly tool: Tool
  readonly args: Values
}

/** Verb of a tool → input of its operation, without fixed fields. */
const INPUTS: Readonly<Record<string, (call: Call) => Values>> = {
  create: (call) => ({ document: isFlat(call) ? call.args : call.args['document'] }),
  get: ({ args }) => ({ id: args['id'], ...selection('select', args['fields'], ',') }),
  update: (call) => ({
    id: call.args['id'],
    document: isFlat(call) ? without(['id', ...UPDATE_OPTIONS], call) : (call.args['document'] ?? {}),
    ...selection('unset', option('remove_fields', call), ','),
    ...ifVersion(option('if_version', call)),
  }),
  delete: ({ args }) => ({ id: args['id'], ...ifVersion(args['if_version']) }),
  list: (call) => ({ filter: equalTo(without(PAGE_OPTIONS, call)), ...page(call) }),
  query: (call) => ({ filter: matching(call), ...page(call) }),
  aggregate: (call) => ({ filter: matching(call), ...groupsOf(call) }),
}

/** @throws Problem `validation_failed` if a condition does not fit its field */
export function documentInput(tool: Tool, args: Values): Values {
  const verb = tool.candidate.slice(tool.candidate.lastIndexOf(':') + 1)
  const input = INPUTS[verb]?.({ tool, args })
  if (input === undefined) throw new TypeError(`no tool of a collection has the verb ${verb}`)
  return input
}

/** The collection is declared: its fields are arguments of their own. */
const isFlat = ({ tool }: Call) => tool.binding.arguments === 'fields'

const nameOf = (option: string, { tool }: Call) =>
  tool.binding.renamed?.includes(option) === true ? `_${option}` : option

const option = (name: string, call: Call) => call.args[nameOf(name, call)]

/** The arguments that are fields. */
function without(options: readonly string[], call: Call): Values {
  const names = options.map((name) => nameOf(name, call))
  return Object.fromEntries(Object.entries(call.args).filter(([name]) => !names.includes(name)))
}

function page(call: Call): Values {
  const [order, descending, limit, after, fields] = PAGE_OPTIONS.map((name) => option(name, call))
  const direction = descending === true ? 'desc' : 'asc'
  return {
    ...(order !== undefined && { sort: [`${quoted(String(order))}.${direction}`] }),
    ...(limit !== undefined && { limit }),
    ...(after !== undefined && { after }),
    ...selection('select', fields),
  }
}

/** A member with paths to fields, as one text if there is a separator; none without a selection. */
function selection(member: string, names: unknown, separator?: string): Values {
  if (!Array.isArray(names)) return {}
  const paths = names.map((name) => inQuotes(String(name)))
  return { [member]: separator === undefined ? paths : paths.join(separator) }
}

const ifVersion = (version: unknown): Values => (version === undefined ? {} : { if_match: `"v${version}"` })

/** Measures and groups by their columns, and the page. */
function groupsOf({ args }: Call): Values {
  const measures = (args['measures'] ?? []) as readonly Measure[]
  const groups = (args['group_by'] ?? []) as readonly Group[]
  const { order_by: order, descending, limit = CORE_LIMITS.pageItemsDefault, cursor } = args
  const direction = descending === true ? 'desc' : 'asc'
  return {
    measures: columns(
      'measures',
      measures.map(({ function: word, field, name = word }) => [
        name,
        { [word]: field === undefined ? true : quoted(field) },
      ]),
    ),
    group: columns(
      'group_by',
      groups.map(({ field, period, time_zone: tz }) => [
        period === undefined ? (field.split('.').at(-1) ?? field) : 'period',
        period === undefined ? quoted(field) : { bucket: quoted(field), by: period, ...(tz && { tz }) },
      ]),
    ),
    ...(order !== undefined && { sort: [`${inQuotes(String(order))}.${direction}`] }),
    ...{ limit, ...(cursor !== undefined && { after: cursor }) },
  }
}

interface Measure {
  readonly function: string
  readonly field?: string
  readonly name?: string
}

interface Group {
  readonly field: string
  readonly period?: string
  readonly time_zone?: string
}

/** @throws Problem `validation_failed` if two columns would have one name */
function columns(argument: string, entries: readonly (readonly [name: string, value: unknown])[]): Values {
  const names = entries.map(([name]) => name)
  const twice = names.find((name, index) => names.indexOf(name) < index)
  if (twice === undefined) return Object.fromEntries(entries.map(([name, value]) => [inQuotes(name), value]))
  throw new Problem('validation_failed', {
    detail: `${argument}: two columns are called ${twice.slice(0, 100)}.`,
  })
}

const equalTo = (fields: Values): Values =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [inQuotes(name), value]))

interface Condition {
  readonly field: string
  readonly operator: string
  readonly value?: unknown
}

function matching({ tool, args }: Call): Values {
  const conditions = (args['where'] ?? []) as readonly Condition[]
  if (conditions.length === 0) return {}
  const { comparable = {} } = tool.binding
  const tests = conditions.map((condition, index) => ({
    [quoted(condition.field)]: test(condition, comparable[condition.field], index),
  }))
  return args['match'] === 'any' ? { $or: tests } : { $and: tests }
}

/** @param schema of the field, if it is declared */
function test(condition: Condition, schema: JsonSchema | undefined, index: number): Values {
  const { operator, value } = condition
  if (operator === 'is_null' || operator === 'is_not_null')
    return { is: operator === 'is_null' ? 'null' : 'not_null' }
  if (value === undefined) throw wrong(index, `${operator} needs a value`)
  const isList = schema !== undefined && typeOf(schema) === 'array'
  if (schema !== undefined) checkValue(condition, isList ? Object(schema['items']) : schema, index)
  return operator === 'contains' ? containing(value, isList, index) : { [operator]: value }
}

function containing(value: unknown, isList: boolean, index: number): Values {
  if (isList) return { cs: [value] }
  if (typeof value !== 'string') throw wrong(index, 'contains takes a text')
  return { ilike: `*${value.replaceAll(/[\\%_*]/g, '\\$&')}*` }
}

/** Equality with a value that the field cannot have finds nothing, so the model would not learn of its mistake. */
function checkValue({ field, operator, value }: Condition, schema: JsonSchema, index: number): void {
  const isIn = operator === 'in'
  if (isIn !== Array.isArray(value))
    throw wrong(index, isIn ? 'in takes a list' : `${operator} takes one value`)
  const { type, enum: values } = schema
  const constraint = ['eq', 'neq', 'in'].includes(operator)
    ? { ...(type !== undefined && { type }), ...(values !== undefined && { enum: values }) }
    : { ...(type !== undefined && operator !== 'contains' && { type }) }
  for (const one of [value].flat()) {
    const [error] = schemaErrors(constraint as Json, one as Json, newBudget())
    if (error !== undefined) throw wrong(index, `the value of ${field} ${error.message}`)
  }
}

const wrong = (index: number, detail: string) =>
  new Problem('validation_failed', { detail: `where[${index}]: ${detail}.` })

/** A path such as `address.city`; names that are operators would be read as such. */
const quoted = (path: string) =>
  path
    .split('.')
    .map((name) => inQuotes(name))
    .join('.')

const inQuotes = (name: string) => `"${name.replaceAll(/["\\]/g, '\\$&')}"`
