/** Constraints of a declaration beside its schema: checks of each document, and ranges of documents that do not overlap. */

import Type, { type Static } from 'typebox'
import { canonical, shortQuote } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { bodyProblem } from '../../operation-helpers.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { type Filter, negated } from '../query/filter.ts'
import { atPointer } from '../query/syntax.ts'
import type { FieldTypes } from '../query/typed-filter.ts'
import { formatsOf, scalarsOf, type TableColumn } from '../schemas/columns.ts'
import type { SchemaObject } from '../schemas/schema-language.ts'
import { Condition, checkCondition, fieldsOf, readCondition } from './condition.ts'

export const Check = Type.Object(
  {
    name: Type.String({
      pattern: '^[A-Za-z][A-Za-z0-9_]{0,62}$',
      description: 'Name of the check in problems.',
    }),
    check: Condition,
    message: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: COLLECTION_LIMITS.checkMessageCharsMax,
        description: 'Sentence in the problem of a document that breaks the check.',
      }),
    ),
  },
  { additionalProperties: false },
)
export type Check = Static<typeof Check>

export const Checks = Type.Array(Check, {
  maxItems: COLLECTION_LIMITS.checksMax,
  description:
    'Conditions that each document must meet: `[{"name": "ends_after_start", "check": {"ends_at": {"gt": {"$field": "starts_at"}}}}]`. `null` and missing values break none.',
})

export const Exclusion = Type.Object(
  {
    fields: Type.Array(Type.String(), {
      maxItems: COLLECTION_LIMITS.indexFieldsMax,
      uniqueItems: true,
      description:
        'Declared scalar fields. Only documents with equal values in all of them exclude each other.',
    }),
    range: Type.Array(Type.String(), {
      minItems: 2,
      maxItems: 2,
      uniqueItems: true,
      description:
        'Fields with the start of the range, and with its end, which does not belong to it. Both are declared with one type: `integer`, `number`, or a string with the format `date-time`, `date`, `decimal` or `int64`.',
    }),
    where: Type.Optional(Condition),
  },
  { additionalProperties: false },
)
export type Exclusion = Static<typeof Exclusion>

export const Exclusions = Type.Array(Exclusion, {
  maxItems: COLLECTION_LIMITS.exclusionsMax,
  description:
    'Ranges that do not overlap: `[{"fields": ["court_id"], "range": ["starts_at", "ends_at"]}]`. A document without one of these values, or that does not meet `where`, excludes none.',
})

/** A check as documents are compared with it. */
export interface DeclaredCheck extends Pick<Check, 'name' | 'message'> {
  /** The fields that it uses. */
  readonly fields: readonly string[]
  /** Matches the documents that break the check. With a null or missing value neither the check nor its opposite holds. */
  readonly broken: Filter
}

/** An exclusion as its table keeps it. */
export interface DeclaredExclusion extends Exclusion {
  /** `x1`, `x2`, …: of its constraint. */
  readonly name: string
  /** The columns that it depends on. */
  readonly columns: readonly string[]
}

/** Checks that are declared already. */
export const readChecks = (checks: readonly Check[], types: FieldTypes): DeclaredCheck[] =>
  checks.map(({ check, ...named }) => {
    const filter = readCondition(check, types)
    return { ...named, fields: fieldsOf(filter), broken: negated(filter) }
  })

export interface RequestedConstraints {
  readonly checks: readonly Check[]
  readonly exclude: readonly Exclusion[]
}

interface Conditional {
  readonly where?: Condition | undefined
}

/** The part of a declaration that its constraints depend on. */
interface Constrained {
  readonly mode: string
  readonly schema: SchemaObject
  readonly inMongo: boolean
  /** The unique indexes, in the order of `unique`. */
  readonly unique: readonly (readonly string[] | Conditional)[]
}

/**
 * @returns the fields that need a column
 * @throws Problem `validation_failed` that names the constraint; `not_supported` if the documents are in MongoDB
 */
export function checkConstraints(
  { checks, exclude }: RequestedConstraints,
  { mode, schema, inMongo, unique }: Constrained,
): string[] {
  const types = { scalars: scalarsOf(schema), formats: formatsOf(schema) }
  const names = Object.keys(Object(schema['properties']))
  const usedBy = (pointer: string, condition: Condition) =>
    atPointer(pointer, () => fieldsOf(checkCondition(condition, types, names)))
  if (mode !== 'enforce')
    for (const [name, list] of Object.entries({ checks, exclude }))
      if (list.length > 0) throw at(`/${name}`, 'need mode enforce')
  checkNames(checks)
  const fields = checks.flatMap(({ check }, index) => usedBy(`/checks/${index}/check`, check))
  for (const [index, one] of exclude.entries()) {
    atPointer(`/exclude/${index}`, () => checkExclusion(one, types))
    fields.push(...one.fields, ...one.range)
    if (one.where !== undefined) fields.push(...usedBy(`/exclude/${index}/where`, one.where))
  }
  for (const [index, one] of unique.entries())
    if ('where' in one && one.where !== undefined) fields.push(...usedBy(`/unique/${index}/where`, one.where))
  if (inMongo && exclude.length > 0)
    throw new Problem('not_supported', {
      detail:
        'Documents of this store are in MongoDB, which compares no ranges of documents. Declare the store relational.',
    })
  return [...new Set(fields)].filter((name) => types.scalars.has(name))
}

const at = (pointer: string, detail: string): Problem =>
  bodyProblem(pointer, detail, `${pointer.split('/')[1]}: ${detail}`)

function checkNames(checks: readonly Check[]): void {
  for (const [index, { name }] of checks.entries())
    if (checks.findIndex((other) => other.name === name) !== index)
      throw at(`/checks/${index}/name`, `two checks have the name ${name}`)
}

/** Types of ranges. Each value is a number of PostgreSQL, without loss. */
const RANGE_TYPES = ['integer', 'number', 'date-time', 'date', 'decimal', 'int64'] as const
export type RangeType = (typeof RANGE_TYPES)[number]

/** The type by which a field is compared as the end of a range; undefined for a field that is none. */
export function rangeTypeOf(field: string, { scalars, formats }: FieldTypes): RangeType | undefined {
  const type = formats.get(field) ?? scalars.get(field)
  return RANGE_TYPES.find((one) => one === type)
}

function checkExclusion({ fields, range }: Exclusion, types: FieldTypes): void {
  for (const field of fields) {
    if (!types.scalars.has(field))
      throw new Problem('validation_failed', {
        detail: `${shortQuote(field)} is not declared as string, integer, number or boolean`,
      })
    if (range.includes(field))
      throw new Problem('validation_failed', { detail: `${shortQuote(field)} is also in the range` })
  }
  const [start, end] = range.map((field) => rangeTypeOf(field, types))
  if (start === undefined || start !== end)
    throw new Problem('validation_failed', {
      detail: `${range.map(shortQuote).join(' and ')} are not declared with one type of a range: ${RANGE_TYPES.join(', ')}`,
    })
}

/** The columns of some fields, those for comparisons among them. */
export const columnsOfFields = (fields: readonly string[], columns: readonly TableColumn[]): string[] =>
  columns.filter(({ property }) => fields.includes(property)).map(({ column }) => column)

/** An exclusion over the same columns stays as it is. @param before those of the declaration before a change */
export function exclusionsOf(
  requested: readonly Exclusion[],
  columns: readonly TableColumn[],
  types: FieldTypes,
  before: readonly DeclaredExclusion[] = [],
): DeclaredExclusion[] {
  let last = Math.max(0, ...before.map(({ name }) => Number(name.slice(1))))
  return requested.map((one) => {
    const { fields, range, where } = one
    const used = [...fields, ...range, ...(where === undefined ? [] : fieldsOf(readCondition(where, types)))]
    const declared = { ...one, columns: columnsOfFields(used, columns) }
    const existing = before.find(({ name: _name, ...other }) => canonical(other) === canonical(declared))
    if (existing !== undefined) return existing
    last += 1
    return { ...declared, name: `x${last}` }
  })
}

/** The exclusions of a declaration in the form in which they are requested. */
export const requestedExclusions = (exclusions: readonly DeclaredExclusion[]): Exclusion[] =>
  exclusions.map(({ name: _name, columns: _columns, ...requested }) => requested)
