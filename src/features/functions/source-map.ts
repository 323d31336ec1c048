/**
 * Source maps (ECMA-426): checks the map of a bundle and finds original positions. Maps are data of tenants: they are read in
 * one pass without recursion, and the names in them are shown and never opened.
 */

import type { Problem } from '../../core/problem.ts'
import { hiddenIn } from '../../core/text/visible-text.ts'
import { FUNCTION_LIMITS } from './limits.ts'

/** `line` and `column` count from 1. `file` is a name from a source map. */
export interface Position {
  readonly line: number
  readonly column: number
  readonly file?: string
}

/** The members of a map that positions need; `sources` are names as {@link sourceName} makes them. */
interface SourceMap {
  readonly version: 3
  readonly sources: readonly string[]
  readonly mappings: string
}

/** A map as it is stored, or the reason why it is none. */
export type CheckedMap =
  | { readonly map: string; readonly fault?: never }
  | { readonly fault: string; readonly map?: never }

class MapInvalid extends Error {}

/** Takes time that grows with the text, so it belongs in a worker thread. */
export function checkSourceMap(text: string): CheckedMap {
  try {
    const map = toSourceMap(text)
    readSegments(map, () => true)
    return { map: JSON.stringify(map) }
  } catch (error) {
    if (error instanceof MapInvalid) return { fault: error.message }
    throw error
  }
}

/** @throws MapInvalid */
function toSourceMap(text: string): SourceMap {
  const { version, sections, sources, mappings } = Object(parsed(text)) as Readonly<Record<string, unknown>>
  if (version !== 3) throw new MapInvalid('It must be a JSON object with `version: 3`.')
  if (sections !== undefined) throw new MapInvalid('It must have no `sections`: give the map of one bundle.')
  if (typeof mappings !== 'string') throw new MapInvalid('`mappings` must be a string.')
  if (!Array.isArray(sources) || sources.length > FUNCTION_LIMITS.sourceMap.sourcesMax)
    throw new MapInvalid(
      `\`sources\` must be a list of at most ${FUNCTION_LIMITS.sourceMap.sourcesMax} names.`,
    )
  return { version, sources: sources.map(sourceName), mappings }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new MapInvalid('It must be JSON.')
  }
}

const UNKNOWN = 'unknown'

/**
 * The name of a source for people: a relative path without scheme, host and steps above its root. Of an absolute path, which
 * tells about the developer's machine, the part from `node_modules` on, or the last step.
 */
function sourceName(given: unknown): string {
  if (typeof given !== 'string' || /^data:/i.test(given)) return UNKNOWN
  const scheme = /^([a-z][a-z0-9+.-]+):(?:\/\/[^/]*)?/i.exec(given)
  const path = given.slice(scheme?.[0].length ?? 0).replaceAll('\\', '/')
  const isOfMachine =
    scheme === null ? /^(\/|[a-z]:\/)/i.test(path) : /^(file|https?)$/i.test(scheme[1] ?? '')
  const steps = resolved(path.replace(/[?#].*$/s, '').split('/'))
  const from = isOfMachine ? ownPart(steps) : 0
  const name = steps.slice(from).join('/').slice(-FUNCTION_LIMITS.sourceMap.nameCharsMax)
  return name === '' || hiddenIn(name) !== undefined ? UNKNOWN : name
}

/** Without `.`, and `..` ends at the root. */
function resolved(steps: readonly string[]): string[] {
  const path: string[] = []
  for (const step of steps) {
    if (step === '..') path.pop()
    else if (step !== '' && step !== '.') path.push(step)
  }
  return path
}

function ownPart(steps: readonly string[]): number {
  const at = steps.indexOf('node_modules')
  return at < 0 ? steps.length - 1 : at
}

/**
 * The original position of a position.
 * @param map as {@link checkSourceMap} returns it, or as esbuild writes it
 * @returns undefined if the map has none
 */
function originalPosition(map: string, { line, column }: Position): Position | undefined {
  const { sources, mappings } = JSON.parse(map) as SourceMap
  let found: Segment | undefined
  readSegments({ sources, mappings }, (segment) => {
    if (segment.line === line - 1 && segment.column <= column - 1) {
      if (found === undefined || segment.column >= found.column) found = { ...segment }
    }
    return segment.line < line
  })
  if (found === undefined || found.source < 0) return undefined
  const file = sources[found.source]
  return {
    line: found.originalLine + 1,
    column: found.originalColumn + 1,
    ...(file !== undefined && { file }),
  }
}

/** All numbers count from 0. `source` is -1 if the segment has no original position. */
interface Segment {
  line: number
  column: number
  source: number
  originalLine: number
  originalColumn: number
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const DIGITS = new Int8Array(128).fill(-1)
for (const [value, digit] of [...BASE64].entries()) DIGITS[digit.charCodeAt(0)] = value
const [COMMA, SEMICOLON] = [44, 59]
/** Numbers have at most 30 bits. */
const SHIFT_MAX = 25

/**
 * Reads all segments in their order.
 * @param visit gets the same object each time, and returns false to stop
 * @throws MapInvalid
 */
function readSegments(
  { sources, mappings }: Pick<SourceMap, 'sources' | 'mappings'>,
  visit: (segment: Readonly<Segment>) => boolean,
): void {
  const reader = new SegmentReader(sources.length)
  for (let at = 0; at < mappings.length; at++) {
    const code = mappings.charCodeAt(at)
    if (code !== COMMA && code !== SEMICOLON) {
      reader.addDigit(code)
      continue
    }
    if (reader.endSegment() && !visit(reader.segment)) return
    if (code === SEMICOLON) reader.endLine()
  }
  if (reader.endSegment()) visit(reader.segment)
}

/** Decodes base 64 VLQ numbers, each the difference to the one before it. */
class SegmentReader {
  readonly segment: Segment = { line: 0, column: 0, source: -1, originalLine: 0, originalColumn: 0 }
  readonly #sourcesCount: number
  readonly #fields = new Int32Array(5)
  #count = 0
  #value = 0
  #shift = 0
  #source = 0

  constructor(sourcesCount: number) {
    this.#sourcesCount = sourcesCount
  }

  addDigit(code: number): void {
    const digit = DIGITS[code] ?? -1
    if (digit < 0 || this.#shift > SHIFT_MAX || this.#count > 4) throw broken()
    this.#value += (digit & 31) << this.#shift
    if ((digit & 32) !== 0) {
      this.#shift += 5
      return
    }
    this.#fields[this.#count++] = (this.#value & 1) === 0 ? this.#value >>> 1 : -(this.#value >>> 1)
    this.#value = this.#shift = 0
  }

  /** @returns false if there is no segment */
  endSegment(): boolean {
    const [column = 0, source = 0, line = 0, originalColumn = 0] = this.#fields
    const count = this.#count
    if (count === 0 && this.#shift === 0) return false
    if (this.#shift > 0 || count === 2 || count === 3) throw broken()
    const { segment } = this
    segment.column += column
    if (count > 1) {
      this.#source += source
      segment.originalLine += line
      segment.originalColumn += originalColumn
    }
    segment.source = count > 1 ? this.#source : -1
    if (Math.min(segment.column, this.#source, segment.originalLine, segment.originalColumn) < 0)
      throw broken('a negative number')
    if (segment.source >= this.#sourcesCount) throw broken('a source that is not in `sources`')
    this.#count = 0
    this.#fields.fill(0)
    return true
  }

  endLine(): void {
    this.segment.line++
    this.segment.column = 0
  }
}

const broken = (what = 'what is no segment') => new MapInvalid(`\`mappings\` has ${what}.`)

/** The beginning of the comment in which esbuild writes an inline map; its JSON in base64 follows. */
const INLINE_MAP = '//# sourceMappingURL=data:application/json;base64,'

/** The map that esbuild has written into its output, as JSON; undefined if there is none. */
export function inlineMap(code: string): string | undefined {
  const start = code.lastIndexOf(INLINE_MAP)
  return start < 0 ? undefined : Buffer.from(code.slice(start + INLINE_MAP.length), 'base64').toString()
}

/** The code without the map within it. */
export function withoutInlineMap(code: string): string {
  const start = code.lastIndexOf(INLINE_MAP)
  return start < 0 ? code : code.slice(0, start)
}

/** Deno would apply a map in its place, and keep no names of files; and a map that a comment in the source names, otherwise. */
const NO_MAP = `\n${INLINE_MAP}${Buffer.from('{"version":3,"sources":[],"names":[],"mappings":""}').toString('base64')}\n`

/**
 * Separates compiled code from its inline map, which the process reads only if it has to locate an error.
 * @returns the code without its map in base64, and the map as it is in the comment; empty if it has none
 */
export function splitSourceMap(compiled: string): { readonly base64: Buffer; readonly map: string } {
  const at = compiled.lastIndexOf(INLINE_MAP)
  const tail = at < 0 ? '' : compiled.slice(at + INLINE_MAP.length).trimEnd()
  const hasMap = /^[\w+/=]+$/.test(tail)
  const code = (hasMap ? compiled.slice(0, at) : compiled) + NO_MAP
  return { base64: Buffer.from(Buffer.from(code).toString('base64')), map: hasMap ? tail : '' }
}

/** The map from the compiled code to the source, and the one from a bundle to the developer's files. */
export interface Maps {
  readonly compiled?: string | null | undefined
  readonly bundle?: string | null | undefined
}

/**
 * The original of a position in the compiled code, or in the source without `compiled`. Takes time that grows with the maps,
 * so it belongs in a worker thread.
 * @returns the position as far as the maps know it; `file` only from the map of the bundle
 */
export function originOf({ compiled, bundle }: Maps, { line, column }: Position): Position {
  const inSource = typeof compiled === 'string' ? originalPosition(compiled, { line, column }) : undefined
  const at = { line: inSource?.line ?? line, column: inSource?.column ?? column }
  return (typeof bundle === 'string' ? originalPosition(bundle, at) : undefined) ?? at
}

/** The position in the member `error` of a problem; undefined if it has none. */
export function positionIn({ members }: Problem): Position | undefined {
  const { line, column } = Object(members['error']) as Readonly<Record<string, unknown>>
  return typeof line === 'number' && typeof column === 'number' ? { line, column } : undefined
}

/** The problem with another position in its member `error`. */
export const atPosition = (problem: Problem, position: Position): Problem =>
  problem.with({ error: { ...Object(problem.members['error']), ...position } })
