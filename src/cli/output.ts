/** Prints what the API returns: as lines and tables for people, or with `--json` exactly as it was received. */

import { visible } from './terminal.ts'
import { type Flag, printJson, printLine, Table } from './verb.ts'

export interface JsonOption {
  readonly json?: boolean | undefined
}

/** The option of a verb that prints one value. */
export const JSON_FLAG: Flag = ['--json', 'Print the JSON of the API.']
/** The option of a verb that prints a list. */
export const JSON_LINES_FLAG: Flag = ['--json', 'Print the JSON of the API, one item per line.']

/** Prints a record: one line for each value, with a name such as `anon.objects`. @returns exit code 0 */
export function printRecord(record: object, { json }: JsonOption): number {
  if (json) return printJson(record)
  const rows = rowsOf(record)
  const width = Math.max(0, ...rows.map(([name]) => name.length))
  for (const [name, value] of rows) printLine(`${visible(name).padEnd(width)}  ${visible(value)}`.trimEnd())
  return 0
}

function rowsOf(value: object, prefix = ''): [name: string, value: string][] {
  return Object.entries(value).flatMap(([key, member]): [string, string][] =>
    isRecord(member) && Object.keys(member).length > 0
      ? rowsOf(member, `${prefix}${key}.`)
      : [[`${prefix}${key}`, textOf(member)]],
  )
}

const isRecord = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A value in one cell or line; `–` if there is none. */
function textOf(value: unknown): string {
  if (value === null || value === undefined || value === '') return '–'
  if (Array.isArray(value)) return value.length === 0 ? '–' : value.map(textOf).join(', ')
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** The columns of a table: heads, and the value of each for an item. */
export type Columns<T> = Readonly<Record<string, (item: T) => unknown>>

export interface ListOptions extends JsonOption {
  /** The largest number of items, as on the command line. */
  readonly limit?: string
}

/** Prints a list while its pages arrive: as a table, or as JSON Lines. @returns exit code 0 */
export async function printPages<T>(
  pages: AsyncIterable<readonly T[]> | Iterable<readonly T[]>,
  columns: Columns<T>,
  { json, limit }: ListOptions = {},
): Promise<number> {
  const table = new Table(Object.keys(columns))
  let left = limit === undefined ? Number.POSITIVE_INFINITY : Number(limit)
  for await (const page of pages) {
    const items = page.slice(0, left)
    left -= items.length
    if (json) for (const item of items) printLine(JSON.stringify(item))
    else table.print(items.map((item) => Object.values(columns).map((cell) => textOf(cell(item)))))
    if (left <= 0) break
  }
  return 0
}
