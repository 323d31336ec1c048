/** Literals against typed columns: of what a literal may mean, the value of the column's type. */

import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { completed } from '../../schemas/canonical.ts'
import { type Literal, type Path, pathText } from './filter.ts'

export type ScalarType = 'text' | 'bigint' | 'double precision' | 'boolean' | 'timestamptz' | 'uuid'
export type Scalar = string | number | boolean

/**
 * Of the values that a literal may mean, the one of the column's type. A point in time is said in full.
 * @throws Problem `filter_type_mismatch`
 */
export function toType(literal: Literal, type: ScalarType, path: Path): Scalar {
  const found = literal.find((form): form is Scalar => FITS[type](form))
  if (found === undefined) throw mismatch(path, type, JSON.stringify(literal.at(-1)))
  return type === 'timestamptz' ? (completed(String(found)) ?? found) : found
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

const FITS: Readonly<Record<ScalarType, (form: Json) => boolean>> = {
  text: (form) => typeof form === 'string',
  bigint: (form) => typeof form === 'number',
  'double precision': (form) => typeof form === 'number',
  boolean: (form) => typeof form === 'boolean',
  timestamptz: (form) => typeof form === 'string' && !Number.isNaN(Date.parse(completed(form) ?? '')),
  uuid: (form) => typeof form === 'string' && UUID.test(form),
}

/** @param wanted what the path is compared as, in words */
export function mismatch(path: Path, wanted: string, got: string): Problem {
  const name = pathText(path)
  const detail = `${name} is compared as ${wanted}; got ${got.slice(0, 100)}.`
  const hint = wanted === 'timestamptz' ? plusHint(got) : undefined
  return new Problem('filter_type_mismatch', {
    detail,
    ...(hint !== undefined && { hint }),
    errors: [{ in: 'query', name, pointer: '', detail }],
  })
}

/** What to say of a point in time that ends with an offset without its sign. */
export function plusHint(got: string): string | undefined {
  return / \d\d:?\d\d"?$/.test(got) ? 'In a URL, a plus is a blank: write it as %2B.' : undefined
}
