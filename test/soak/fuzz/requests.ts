/** Valid requests of each operation and route: the row of the isolation sweep, other bodies, and generated optional fields. */

import fc from 'fast-check'
import type { TSchema } from 'typebox'
import { type AnyOperation, placeOf, QUERY_NAMES } from '../../../src/core/operation.ts'
import { ROWS, type World } from '../../isolation/sweep-rows.ts'
import { bodiesOf, FILTERS, HEADERS } from './examples.ts'
import type { RouteRow } from './routes.ts'
import { valueFor } from './values.ts'

export interface FuzzRequest {
  readonly method: string
  /** Encoded, without the empty one before the first slash. */
  readonly segments: readonly string[]
  /** Encoded, without the question mark. */
  readonly query: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  /** Text is sent as it is, everything else as JSON. */
  readonly body: unknown
}

/** Members that no generated value fits: others are named by the row. `revoke` would end the tokens of the callers. */
const NOT_GENERATED = /(^|_)(id|after|anchor)$|^(tenant|workspace|bucket|revoke|slug|cursor|schedule|timeout)/

export function validRequest(operation: AnyOperation, world: World): fc.Arbitrary<FuzzRequest> {
  const row = ROWS[operation.name]
  if (row === undefined) throw new Error(`${operation.name} is not in the sweep`)
  const { segments, query: pairs } = partsOf(row.path(world))
  const bodies = [row.body?.(world), ...bodiesOf(operation.name, world)]
  return fc
    .record({
      body: fc.constantFrom(...bodies),
      more: fc.record(
        Object.fromEntries(optionalFields(operation).map((field) => [field, seldom(operation, field)])),
      ),
      filter: operation.http.rest === undefined ? fc.constant('') : fc.constantFrom('', '', ...FILTERS),
    })
    .map(({ body, more, filter }) => {
      const chosen = Object.entries(more).filter(([, value]) => value !== undefined)
      const at = (place: string) => chosen.filter(([field]) => placeOf(field, operation.http) === place)
      const added = at('query').map(
        ([field, value]) => `${QUERY_NAMES[field] ?? field}=${encodeURIComponent(String(value))}`,
      )
      const named = at('header').map(([field, value]) => [operation.http.headers?.[field], String(value)])
      return {
        method: operation.http.method,
        segments,
        query: [...pairs, ...added, ...(filter === '' ? [] : [filter])],
        headers: Object.fromEntries(named),
        body: isMembers(body) ? { ...Object.fromEntries(at('body')), ...body } : body,
      }
    })
}

export function routeRequest(
  { method, path, bodies = [undefined], headers = {} }: RouteRow,
  world: World,
): fc.Arbitrary<FuzzRequest> {
  return fc.constantFrom(...bodies).map((body) => ({ method, ...partsOf(path(world)), headers, body }))
}

function partsOf(url: string): Pick<FuzzRequest, 'segments' | 'query'> {
  const [path = '', query = ''] = url.split('?')
  return { segments: path.slice(1).split('/'), query: query.split('&').filter((pair) => pair !== '') }
}

const isMembers = (body: unknown): body is object =>
  typeof body === 'object' && body !== null && !Array.isArray(body)

function optionalFields({ input, http }: AnyOperation): string[] {
  const required = new Set((input as { required?: string[] }).required ?? [])
  return Object.keys(input.properties).filter((field) => {
    const place = placeOf(field, http)
    return !(
      required.has(field) ||
      place === 'path' ||
      field === http.rest ||
      field === http.body ||
      NOT_GENERATED.test(field)
    )
  })
}

/** Mostly undefined, or a value for the field. */
function seldom({ input, http }: AnyOperation, field: string): fc.Arbitrary<unknown> {
  const header = http.headers?.[field]
  const value =
    header === undefined
      ? valueFor(input.properties[field] as TSchema)
      : fc.constantFrom(...(HEADERS[header] ?? ['']))
  return fc.oneof({ weight: 12, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: value })
}
