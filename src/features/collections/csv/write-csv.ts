/** Writes documents as CSV (RFC 4180), so that an import reads them back. */

import { Problem } from '../../../core/problem.ts'
import { valueBelow } from '../query/evaluate.ts'
import { type Path, pathText } from '../query/filter.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import type { SchemaObject } from '../schemas/schema-language.ts'
import { type Column, type CsvOptions, cellText, columnsOf, delimiterOf, readSelected } from './columns.ts'

export interface WriteOptions extends CsvOptions {
  readonly csv_formulas?: string
}

/** Writes the lines of an export. */
export interface CsvWriter {
  readonly header: string
  readonly lineOf: (document: object) => string
}

/** @throws Problem `select_invalid` if nothing says which columns there are */
export function csvWriter(
  select: string | undefined,
  declared: Declaration | undefined,
  options: WriteOptions,
): CsvWriter {
  const columns = columnsOf(pathsOf(select, declared), declared, options)
  const delimiter = delimiterOf(options)
  const line = (cells: readonly string[]) => `${cells.join(delimiter)}\r\n`
  const cellOf = cellWriter(delimiter, options)
  return {
    header: line(columns.map(({ name }) => quoted(escaped(name, options), delimiter))),
    lineOf: (document) => line(columns.map((column) => cellOf(column, valueBelow(document, column.path)))),
  }
}

function pathsOf(select: string | undefined, declared: Declaration | undefined): Path[] {
  if (select !== undefined && select !== '*') {
    const paths = readSelected(select)
    return paths.some((path) => pathText(path) === 'id') ? paths : [['id'], ...paths]
  }
  const names = Object.keys(Object((declared?.schema.schema as SchemaObject | undefined)?.['properties']))
  if (names.length > 0)
    return ['id', ...names, '_created_at', '_updated_at', '_version', '_owner'].map((name): Path => [name])
  throw new Problem('select_invalid', {
    detail: 'Documents of a collection without declared fields have no fixed columns.',
    hint: 'Name them: select=name,address.city.',
  })
}

/** With a quote before what a spreadsheet would take for a formula, if that is asked for. */
const escaped = (text: string, { csv_formulas: formulas }: WriteOptions): string =>
  formulas === 'escape' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text

function cellWriter(delimiter: string, options: WriteOptions) {
  const { csv_null: nullText = '' } = options
  return (column: Column, value: unknown): string => {
    if (value === undefined) return ''
    // As an unquoted text of JSON if that is how it is read back.
    if (value === null) return column.kind === 'json' ? 'null' : nullText
    const text = cellText(column, value)
    const shown = typeof value === 'string' ? escaped(text, options) : text
    return shown === '' || shown === nullText ? `"${shown}"` : quoted(shown, delimiter)
  }
}

const quoted = (text: string, delimiter: string): string =>
  /["\r\n]/.test(text) || text.includes(delimiter) ? `"${text.replaceAll('"', '""')}"` : text
