/** Order by distance: `order=_distance(52.52,13.405)` finds the documents that are nearest to a place, and says how far they are. */

import { isObject } from '../../../core/json.ts'
import { refusal, type Source } from './syntax.ts'

/** A place in degrees, and within how many metres of it documents are found. */
export interface Distance {
  readonly lat: number
  readonly lng: number
  readonly within?: number
}

type Order = string | readonly string[] | Readonly<Record<string, 1 | -1>> | undefined

const NAME = '_distance'
const FORM = `Write order=${NAME}(52.52,13.405), latitude and longitude in degrees, and ${NAME}=lte.5000 for those within so many metres.`
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/

const ORDER: Source = { code: 'order_invalid', in: 'query', name: 'order' }
const FILTER: Source = { code: 'filter_invalid', in: 'query', name: NAME }

/** A query without its distance, and the distance. */
interface Rest<O extends Order, F> {
  readonly order: O | undefined
  readonly filters: F
  readonly distance?: Distance
}

/** Takes the distance out of the parameters of a URL. @throws Problem `order_invalid` or `filter_invalid` */
export function takeDistance(
  filters: readonly (readonly [name: string, value: string])[],
  order: string | undefined,
): Rest<string, readonly (readonly [string, string])[]> {
  const [found, ...others] = filters.filter(([name]) => name === NAME)
  const place = placeOf(order)
  if (found === undefined) return { filters, ...ordered(order, place) }
  const metres = /^lte\.(.*)$/su.exec(found[1])?.[1]
  if (others.length > 0 || metres === undefined) throw refusal(FILTER, 'A distance has one bound.', FORM)
  const rest = filters.filter(([name]) => name !== NAME)
  return { filters: rest, ...ordered(order, place, metresOf(metres)) }
}

/** Takes it out of a query in JSON: `{"filter": {"_distance": {"lte": 5000}}, "sort": ["_distance(52.52,13.405)"]}`. */
export function takeBodyDistance<O extends Order>(
  filter: Readonly<Record<string, unknown>>,
  order: O,
): Rest<O, Readonly<Record<string, unknown>>> {
  const place = placeOf(order)
  if (!Object.hasOwn(filter, NAME)) return { filters: filter, ...ordered(order, place) }
  const { [NAME]: bound, ...rest } = filter
  const [[operator, metres] = [], ...others] = isObject(bound) ? Object.entries(bound) : []
  if (others.length > 0 || operator !== 'lte') throw refusal(FILTER, 'A distance has one bound.', FORM)
  return { filters: rest, ...ordered(order, place, metresOf(String(metres))) }
}

function ordered<O extends Order>(order: O | undefined, place: Distance | undefined, within?: number) {
  if (place !== undefined)
    return { order: undefined, distance: { ...place, ...(within !== undefined && { within }) } }
  if (within !== undefined) throw refusal(FILTER, 'A distance needs the place in the order.', FORM)
  return { order }
}

/** The place in an order that is the distance from it. */
function placeOf(order: Order): Distance | undefined {
  const text = textOf(order)
  if (!text.includes(`${NAME}(`)) return undefined
  const [, lat = '', lng = ''] =
    /^_distance\(\s*([^,()]*?)\s*,\s*([^,()]*?)\s*\)(?:\.asc)?$/u.exec(text) ?? []
  const place = { lat: degrees(lat, 90), lng: degrees(lng, 180) }
  return place
}

function textOf(order: Order): string {
  if (order === undefined || typeof order === 'string') return order ?? ''
  if (Array.isArray(order)) return order.join()
  return Object.entries(order)
    .map(([name, direction]) => `${name}.${direction === 1 ? 'asc' : 'desc'}`)
    .join()
}

function degrees(text: string, most: number): number {
  const value = NUMBER.test(text) ? Number(text) : Number.NaN
  if (Math.abs(value) <= most) return value
  throw refusal(ORDER, 'The order by distance is one place, and the nearest first.', FORM)
}

function metresOf(text: string): number {
  const value = NUMBER.test(text) ? Number(text) : Number.NaN
  if (value >= 0 && Number.isFinite(value)) return value
  throw refusal(FILTER, 'A distance is a number of metres.', FORM)
}
