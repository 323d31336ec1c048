/** Literals against typed columns: of what a literal may mean, the value of the column's type. */

import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { type Literal, type Path, pathText } from './filter.ts'

export type ScalarType = 'text' | 'bigint' | 'double precision' | 'boolean' | 'timestamptz' | 'uuid'
export type Scalar = string | number | boolean

/** Of the values that a literal may mean, the one of the column's type. @throws Problem `filter_type_mismatch` */
export function toType(literal: Literal, type: ScalarType, path: Path): Scalar {
  const found = literal.find((form): form is Scalar => FITS[type](form))
  if (found === undefined) throw mismatch(path, type, JSON.stringify(literal.at(-1)))
  return found
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
const TIME = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$/

const FITS: Readonly<Record<ScalarType, (form: Json) => boolean>> = {
  text: (form) => typeof form === 'string',
  bigint: (form) => typeof form === 'number',
  'double precision': (form) => typeof form === 'number',
  boolean: (form) => typeof form === 'boolean',
  timestamptz: (form) => typeof form === 'string' && TIME.test(form) && !Number.isNaN(Date.parse(form)),
  uuid: (form) => typeof form === 'string' && UUID.test(form),
}

/** @param wanted what the path is compared as, in words */
export function mismatch(path: Path, wanted: string, got: string): Problem {
  const name = pathText(path)
  const detail = `${name} is compared as ${wanted}; got ${got.slice(0, 100)}.`
  const blank = wanted === 'timestamptz' && / \d\d:?\d\d"?$/.test(got)
  return new Problem('filter_type_mismatch', {
    detail,
    ...(blank && { hint: 'In a URL, a plus is a blank: write it as %2B.' }),
    errors: [{ in: 'query', name, pointer: '', detail }],
  })
}
