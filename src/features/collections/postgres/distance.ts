/** Finds the documents that are nearest to a place: in circles that grow until one has enough, each by the index of latitudes. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Sql, sql } from '../../../infra/postgres/sql.ts'
import type { Distance } from '../query/distance.ts'
import type { Index } from '../schemas/api-types.ts'
import type { Table, TableRow } from './table.ts'

/** Metres: the mean radius of the earth (IUGG), and the radii of the circles. The last one has all places. */
const EARTH = 6_371_008.8
const CIRCLES = [1_000, 10_000, 100_000, 1_000_000, Number.POSITIVE_INFINITY]

/** The rows by their distance, at most `limit`. @param index of the two coordinates */
export async function nearestRows(
  scope: WorkspaceScope,
  table: Table,
  where: Sql,
  { distance, limit, index }: { readonly distance: Distance; readonly limit: number; readonly index: Index },
): Promise<TableRow[]> {
  const { within = Number.POSITIVE_INFINITY } = distance
  for (const circle of CIRCLES) {
    const metres = Math.min(circle, within)
    const rows = await scope.rows<TableRow>(nearestIn(table, where, { distance, limit, index, metres }))
    if (rows.length >= limit || metres === within || circle === CIRCLES.at(-1)) return rows
  }
  return []
}

interface Circle {
  readonly distance: Distance
  readonly metres: number
  readonly limit: number
  readonly index: Index
}

function nearestIn({ name, row }: Table, where: Sql, { distance, metres, limit, index }: Circle): Sql {
  const [lat = sql``, lng = sql``] = index.columns.map((column) => Sql.identifier(column))
  const from = { lat: Sql.shared(distance.lat), lng: Sql.shared(distance.lng) }
  // The haversine formula, whose errors do not grow where distances are small.
  const haversine = sql`power(sin(radians(${lat} - ${from.lat}::double precision) / 2), 2)
    + cos(radians(${from.lat}::double precision)) * cos(radians(${lat})) * power(sin(radians(${lng} - ${from.lng}::double precision) / 2), 2)`
  const far = sql`${2 * EARTH}::double precision * asin(least(1, sqrt(${haversine})))`
  const isNear = Number.isFinite(metres) ? sql`distance <= ${metres}::double precision` : sql`true`
  return sql`select * from (select ${row}, ${far} as distance from ${name} where ${where} and ${boxAround(distance, metres, { lat, lng })}) found
    where ${isNear} order by distance, id limit ${limit}`
}

/** Latitudes and longitudes of a box that has the circle. Documents whose coordinates are no place on earth are in none. */
function boxAround(
  { lat: from, lng: at }: Distance,
  metres: number,
  { lat, lng }: Readonly<Record<'lat' | 'lng', Sql>>,
): Sql {
  const between = (value: Sql, low: number, high: number) =>
    sql`${value} >= ${low}::double precision and ${value} <= ${high}::double precision`
  // A little more, since both are rounded.
  const angle = (metres / EARTH) * 1.000_001
  const [south, north] = [from - toDegrees(angle), from + toDegrees(angle)]
  const latitudes = between(lat, Math.max(south, -90), Math.min(north, 90))
  if (!(south > -90 && north < 90)) return sql`${latitudes} and ${between(lng, -180, 180)}`
  const width =
    toDegrees(Math.asin(Math.min(1, Math.sin(angle) / Math.cos((from * Math.PI) / 180)))) * 1.000_001
  const [west, east] = [at - width, at + width]
  if (west >= -180 && east <= 180) return sql`${latitudes} and ${between(lng, west, east)}`
  // The box crosses the antimeridian.
  const [left, right] = west < -180 ? [west + 360, east] : [west, east - 360]
  return sql`${latitudes} and (${between(lng, left, 180)} or ${between(lng, -180, right)})`
}

const toDegrees = (radians: number): number => (radians * 180) / Math.PI
