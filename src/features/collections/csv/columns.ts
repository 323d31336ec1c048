/** Columns of CSV: the field that each has, and how its cells are read and written (docs/import-export.md, "CSV"). */

import Type from 'typebox'
import { parseJson, unescapePointer } from '../../../core/json.ts'
import { Problem } from '../../../core/problem.ts'
import { readsBack } from '../../../core/strict-json.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { type Path, pathText } from '../query/filter.ts'
import { commaParts, readPath, refusal, type Source } from '../query/syntax.ts'
import type { Declaration } from '../schemas/declaration-cache.ts'
import type { SchemaObject } from '../schemas/schema-language.ts'

/** The parameters that imports and exports share. */
export const CsvInput = {
  csv_delimiter: Type.Optional(
    Type.String({
      enum: [',', ';', '|', 'tab'],
      description: 'Character between two cells of CSV. Default: a comma.',
    }),
  ),
  csv_null: Type.Optional(
    Type.String({
      maxLength: 20,
      // Such a character would end the cell, or the line.
      pattern: '^[^",;|\\t\\r\\n]*$',
      description:
        'Text of a cell of CSV without quotes that stands for `null`, such as `NULL`. Default: none; `null` is written as an empty cell, and lost.',
    }),
  ),
  csv_cells: Type.Optional(
    Type.String({
      enum: ['text', 'json'],
      description:
        'Reading of cells of CSV whose field has no declared type. `text`: each is a text; `json`: one that is valid JSON, such as `42`, is that value. Default: `text`.',
    }),
  ),
}

export interface CsvOptions {
  readonly csv_delimiter?: string
  readonly csv_null?: string
  readonly csv_cells?: string
}

export const delimiterOf = ({ csv_delimiter: name = ',' }: CsvOptions): string =>
  name === 'tab' ? '\t' : name

/**
 * How cells become values. `typed`: numbers, booleans, objects and arrays as in JSON, a text that is none of these stays one, for
 * the schema to refuse. `json`: whatever is valid JSON.
 */
type Kind = 'text' | 'typed' | 'json'

export interface Column {
  /** As the header names it. */
  readonly name: string
  readonly path: Path
  readonly kind: Kind
}

/** The name of the column that a JSON pointer leads into; undefined if it leads into none. */
export function columnAt(columns: readonly Column[], pointer: string): string | undefined {
  const names = pointer.split('/').slice(1).map(unescapePointer)
  return columns.find(({ path }) => isWithin(names, path))?.name
}

/** Fields of the platform, whose type is known. */
const SYSTEM: Readonly<Record<string, Kind>> = {
  id: 'text',
  _created_at: 'text',
  _updated_at: 'text',
  _owner: 'text',
  _version: 'typed',
}

/**
 * The columns of these paths.
 * @throws Problem if a name is no path, comes twice, or lies below another one
 */
export function columnsOf(
  paths: readonly Path[],
  declared: Declaration | undefined,
  { csv_cells: cells = 'text' }: CsvOptions,
): Column[] {
  return paths.map((path) => {
    const types = typesAt(path, declared)
    const system = path.length === 1 && Object.hasOwn(SYSTEM, path[0]) ? SYSTEM[path[0]] : undefined
    return { name: pathText(path), path, kind: system ?? kindOf(types, cells === 'json') }
  })
}

function kindOf(types: readonly string[], isJson: boolean): Kind {
  const others = types.filter((type) => type !== 'string' && type !== 'null')
  if (types.length === 0 || (others.length > 0 && types.includes('string'))) return isJson ? 'json' : 'text'
  return others.length > 0 ? 'typed' : 'text'
}

/** The types that the schema declares at a path; none if it says nothing. */
function typesAt(path: Path, declared: Declaration | undefined): readonly string[] {
  let schema: unknown = declared?.schema.schema
  for (const name of path) {
    const properties = Object((schema as SchemaObject | undefined)?.['properties'])
    schema = Object.hasOwn(properties, name) ? properties[name] : undefined
  }
  const type = Object(schema)['type']
  return Array.isArray(type) ? type : typeof type === 'string' ? [type] : []
}

/** The header of an import. @throws Problem `validation_failed` */
export function readHeader(names: readonly string[]): Path[] {
  if (names.length > COLLECTION_LIMITS.csvColumnsMax) {
    const detail = `The header has ${names.length} columns; at most ${COLLECTION_LIMITS.csvColumnsMax} are read.`
    throw new Problem('validation_failed', { detail })
  }
  const paths = names.map((name, index) => {
    const source: Source = { code: 'validation_failed', in: 'body', name: `column ${index + 1}` }
    if (name === '') throw refusal(source, `Column ${index + 1} of the header has no name.`)
    return readPath(name, source)
  })
  for (const [index, path] of paths.entries()) {
    const other = paths.findIndex((one, at) => at < index && (isWithin(path, one) || isWithin(one, path)))
    if (other < 0) continue
    const source: Source = { code: 'validation_failed', in: 'body', name: `column ${index + 1}` }
    throw refusal(
      source,
      `Columns ${other + 1} and ${index + 1} of the header set the same field: ${names[index]?.slice(0, 50)}.`,
    )
  }
  return paths
}

/** True if a path is the other one, or leads to a member below it. */
const isWithin = (path: readonly string[], other: Path): boolean =>
  other.every((name, at) => path[at] === name)

/** The columns that `select` names. */
export const readSelected = (text: string): Path[] =>
  commaParts(text).map((part) => readPath(part, { code: 'select_invalid', in: 'query', name: 'select' }))

const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/
/** Spreadsheets write booleans in capitals. */
const BOOLEANS = new Map<string, boolean>([
  ['true', true],
  ['false', false],
  ['TRUE', true],
  ['FALSE', false],
])

/** The value of a cell. @throws Problem `number_unsafe` for an integer that would be rounded */
export function readCell({ kind, name }: Column, text: string): unknown {
  if (kind === 'text') return text
  if (kind === 'typed' && BOOLEANS.has(text)) return BOOLEANS.get(text)
  if (NUMBER.test(text)) {
    if (readsBack(text)) return Number(text)
    throw new Problem('number_unsafe', { detail: `${name}: ${text.slice(0, 50)} would be rounded.` })
  }
  if (kind === 'typed' && !/^[[{]/.test(text)) return text
  try {
    return parseJson(text)
  } catch (error) {
    // A text that is no JSON is a text; one whose value would not read back is refused.
    if (error instanceof Problem && error.code === 'body_invalid' && !isJson(text)) return text
    throw error
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** The text of a value, so that {@link readCell} reads the same. */
export function cellText({ kind }: Column, value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value)
  return kind === 'json' && isJson(value) ? JSON.stringify(value) : value
}

/** Sets a value at a path of a new document. */
export function setAt(
  document: Record<string, unknown>,
  [name, ...below]: readonly string[],
  value: unknown,
): void {
  if (name === undefined) return
  const isLast = below.length === 0
  const member = isLast ? value : Object.hasOwn(document, name) ? document[name] : {}
  // A field may be called __proto__, which the check of the document refuses.
  Object.defineProperty(document, name, {
    value: member,
    enumerable: true,
    configurable: true,
    writable: true,
  })
  if (!isLast) setAt(member as Record<string, unknown>, below, value)
}
