/** Plain schemas, and documents that can be seen to fit them: most are, and the library takes ten times as long to say so. */

import Format from 'typebox/format'
import { LIMITS } from '../../core/limits.ts'
import type { Schema, SchemaObject } from './language.ts'

/**
 * Whether it can be seen that a document fits; `false` says nothing. Its work is bounded by the document's members.
 * @param whole whether what is required has to be there
 */
export type Glance = (fields: Readonly<Record<string, unknown>>, whole: boolean) => boolean

type Test = (value: unknown) => boolean

const TYPES: Readonly<Record<string, Test>> = {
  string: (value) => typeof value === 'string',
  number: Number.isFinite,
  integer: Number.isInteger,
  boolean: (value) => typeof value === 'boolean',
}

/** What a keyword of a member asks, beside its type. A text is no longer than it has code units, whatever is counted. */
const TESTS: Readonly<Record<string, (wanted: never) => Test>> = {
  enum: (wanted: readonly unknown[]) => (value) => wanted.includes(value),
  maxLength: (wanted: number) => (value) => typeof value !== 'string' || value.length <= wanted,
  minimum: (wanted: number) => (value) => typeof value !== 'number' || value >= wanted,
  maximum: (wanted: number) => (value) => typeof value !== 'number' || value <= wanted,
  format: (wanted: string) => (value) =>
    typeof value !== 'string' || (value.length <= LIMITS.matchedCharsMax && Format.Test(wanted, value)),
}

/**
 * @param schema one that was prepared, and that does not speak of what every object inherits
 * @returns undefined where it says more than names, types and bounds of single values
 */
export function glanceOf(schema: Schema): Glance | undefined {
  if (typeof schema === 'boolean') return undefined
  const { type, properties = {}, required = [], additionalProperties = true, ...others } = schema
  if (type !== 'object' || typeof additionalProperties !== 'boolean' || Object.keys(others).length > 0)
    return undefined
  const tests = new Map<string, readonly Test[]>()
  for (const [name, member] of Object.entries(properties as SchemaObject)) {
    const asked = testsOf(member as Schema)
    if (asked === undefined) return undefined
    tests.set(name, asked)
  }
  return (fields, whole) => {
    if (whole && !(required as string[]).every((name) => Object.hasOwn(fields, name))) return false
    return Object.keys(fields).every((name) => {
      const asked = tests.get(name)
      return asked === undefined ? additionalProperties : asked.every((test) => test(fields[name]))
    })
  }
}

function testsOf(schema: Schema): readonly Test[] | undefined {
  if (typeof schema === 'boolean') return undefined
  const tests: Test[] = []
  for (const [keyword, wanted] of Object.entries(schema)) {
    const test = keyword === 'type' ? TYPES[wanted as string] : TESTS[keyword]?.(wanted as never)
    if (test === undefined) return undefined
    tests.push(test)
  }
  return tests
}
