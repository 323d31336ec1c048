/** Reads the rows of a CSV body (RFC 4180) as documents, with the line and the column of each fault. */

import { pipeline, Readable } from 'node:stream'
import { CsvError, parse } from 'csv-parse'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { Fields } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { commaParts } from '../query/syntax.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import {
  type Column,
  type CsvOptions,
  columnsOf,
  delimiterOf,
  readCell,
  readHeader,
  setAt,
} from './columns.ts'

export interface ReadOptions extends CsvOptions {
  /** Names of the columns of a file without a header. */
  readonly csv_header?: string
}

interface CsvRow {
  /** From 1 on: the line on which the row begins. */
  readonly line: number
  readonly lastLine: number
  readonly document: Fields | Problem
  /** The cells as they were sent, for an id that derives from them. */
  readonly text: string
}

interface CsvRows {
  readonly rows: readonly CsvRow[]
  /** The last line that was read. */
  readonly line: number
  /** Undefined before the header was read. */
  readonly columns: readonly Column[] | undefined
}

/** A text; null as the option spells it; undefined if the cell is empty and has no quotes. */
type Cell = string | null | undefined

interface Row {
  readonly record: readonly Cell[]
  /** On which it begins. */
  readonly line: number
  readonly lastLine: number
}

/** Yields the rows in groups. @throws Problem that ends the import, with the line and the column */
export async function* readCsv(
  chunks: AsyncIterable<Uint8Array>,
  declared: Declaration | undefined,
  options: ReadOptions,
): AsyncGenerator<CsvRows> {
  const parser = parserOf(options)
  // Errors of the source end the parser; they are thrown below.
  pipeline(Readable.from(decoded(chunks)), parser, () => {})
  const named = options.csv_header
  let columns = named === undefined ? undefined : columnsOf(readHeader(commaParts(named)), declared, options)
  let rows: CsvRow[] = []
  let [bytes, lastLine] = [0, 0]
  try {
    for await (const read of parser as AsyncIterable<Row>) {
      lastLine = read.lastLine
      if (columns === undefined) {
        columns = columnsOf(readHeader(read.record.map((cell) => cell ?? '')), declared, options)
        continue
      }
      const row = rowOf(columns, read)
      rows.push(row)
      bytes += row.text.length
      if (rows.length < COLLECTION_LIMITS.importChunkLines && bytes < COLLECTION_LIMITS.importChunkBytes)
        continue
      yield { rows, line: lastLine, columns }
      ;[rows, bytes] = [[], 0]
    }
  } catch (error) {
    throw error instanceof CsvError ? malformed(error) : error
  }
  yield { rows, line: lastLine, columns }
}

function parserOf(options: ReadOptions) {
  const { csv_null: nullText } = options
  let line = 1
  // The parser counts a carriage return and its line feed in a cell as two lines.
  let excess = 0
  return parse({
    // The parser reads ahead, so each row has its lines with it.
    on_record: (record, { lines }) => {
      const row: Row = { record, line, lastLine: lines - excess }
      // The types of the library know records of texts alone.
      return row as unknown as string[]
    },
    delimiter: delimiterOf(options),
    record_delimiter: ['\r\n', '\n', '\r'],
    // Rows with too few or too many cells fail by themselves.
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: CORE_LIMITS.bodyBytesMax,
    cast: (text, { quoting, index, lines }): Cell => {
      excess += countOf(text, /\r\n/g)
      if (index === 0) line = lines - excess - countOf(text, /\r\n|\n|\r/g)
      if (quoting) return text
      if (nullText !== undefined && text === nullText) return null
      return text === '' ? undefined : text
    },
  })
}

const countOf = (text: string, pattern: RegExp): number => text.match(pattern)?.length ?? 0

function rowOf(columns: readonly Column[], { record, line, lastLine }: Row): CsvRow {
  const row = { line, lastLine, text: JSON.stringify(record) }
  try {
    return { ...row, document: documentOf(columns, record) }
  } catch (error) {
    if (error instanceof Problem) return { ...row, document: error }
    throw error
  }
}

function documentOf(columns: readonly Column[], record: readonly Cell[]): Fields {
  if (record.length !== columns.length) {
    const detail = `The row has ${record.length} cells; the header has ${columns.length}.`
    throw new Problem('validation_failed', { detail })
  }
  const document: Fields = {}
  for (const [index, column] of columns.entries()) {
    const cell = record[index]
    if (cell !== undefined) setAt(document, column.path, cell === null ? null : valueIn(column, cell))
  }
  return document
}

function valueIn(column: Column, cell: string): unknown {
  try {
    return readCell(column, cell)
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    const { code, message: detail } = error
    const pointer = `/${column.path.join('/')}`
    throw new Problem(code, { detail, errors: [{ in: 'body', name: column.name, pointer, detail }] })
  }
}

/** The text of the body. @throws Problem `body_invalid` with the line, if it is not UTF-8 */
async function* decoded(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let line = 1
  const decode = (chunk?: Uint8Array): string => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined })
    } catch (cause) {
      const detail = `The file is not valid UTF-8, after line ${line}.`
      const hint = 'Save it as "CSV UTF-8". Spreadsheets use the encoding of the computer otherwise.'
      throw new Problem('body_invalid', { detail, hint, cause })
    }
  }
  for await (const chunk of chunks) {
    const text = decode(chunk)
    line += text.split('\n').length - 1
    yield text
  }
  yield decode()
}

const FAULTS: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote is not closed',
  INVALID_OPENING_QUOTE: 'a quote stands inside a cell that does not begin with one',
  CSV_INVALID_CLOSING_QUOTE: 'a closing quote is followed by other text',
}

function malformed(error: CsvError): Problem {
  const { code, lines, column } = error as CsvError & {
    readonly lines?: number
    readonly column?: number | string
  }
  const line = lines ?? 0
  const members = { line }
  if (code === 'CSV_MAX_RECORD_SIZE') {
    const detail = `Line ${line}: a row has more than ${CORE_LIMITS.bodyBytesMax} bytes.`
    return new Problem('body_too_large', {
      detail,
      members: { ...members, limit_bytes: CORE_LIMITS.bodyBytesMax },
    })
  }
  const at = typeof column === 'number' ? `, column ${column + 1}` : ''
  const detail = `Line ${line}${at}: ${FAULTS[code] ?? 'the row is not valid CSV'}.`
  const hint = 'A cell with a quote, a line break or the delimiter stands in quotes, in which "" is a quote.'
  return new Problem('body_invalid', { detail, hint, members })
}
