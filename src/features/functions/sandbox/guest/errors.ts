/** Part of the program in a function's process: errors as the worker gets them, with locations in the sources. */

export const ERRORS = String.raw`
let sourceMap
let sourceMapText = NO_BYTES
const CODES = {}
for (const [value, char] of [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].entries())
  CODES[char] = value

/** The numbers of a segment of a source map (base64 VLQ). */
const numbersOf = (segment) => {
  const numbers = []
  let value = 0
  let shift = 0
  for (const char of segment) {
    const digit = CODES[char] ?? 0
    value += (digit & 31) << shift
    shift += 5
    if (digit & 32) continue
    numbers.push(value & 1 ? -(value >>> 1) : value >>> 1)
    value = shift = 0
  }
  return numbers
}

const origins = new Map()
/** The location in the sources, from 1; the file only if there are several. */
const findOrigin = (line, column) => {
  sourceMap ??= parse(decode(Uint8Array.fromBase64(decode(sourceMapText))) || '{}')
  const { mappings = '', sources = [] } = sourceMap
  const at = { source: 0, line: 0, column: 0 }
  let found
  for (const [row, text] of mappings.split(';').slice(0, line).entries()) {
    let generated = 0
    for (const segment of text.split(',')) {
      const [by = 0, source, lines, columns] = numbersOf(segment)
      generated += by
      if (source === undefined) continue
      at.source += source
      at.line += lines
      at.column += columns
      if (row === line - 1 && generated < column) found = { ...at }
    }
  }
  if (found === undefined) return { line, column }
  const file = sources.length > 1 ? String(sources[found.source]) : undefined
  return { file, line: found.line + 1, column: found.column + 1 }
}
const originOf = (line, column) => {
  const key = line + ':' + column
  if (origins.has(key)) return origins.get(key)
  let origin
  try {
    origin = findOrigin(line, column)
  } catch {
    origin = { line, column }
  }
  if (origins.size < 1000) origins.set(key, origin)
  return origin
}

const FRAME = /data:application\/javascript;base64,[\w+\/=.]*:(\d+):(\d+)/
const FRAMES = new RegExp(FRAME, 'g')
const OWN_FRAMES = /\n? *at [^\n]*data:text\/javascript;base64,[^\n]*/g
const NAMED = /\s*\bat data:\S+|data:(application|text)\/javascript;base64,[^\s:]*/g
const NONE = 'functions have no files, environment or processes, and no network but fetch'

/** A text with stacks, whose locations become those of the sources. */
const withOrigins = (text) =>
  text.includes('data:')
    ? text.replace(OWN_FRAMES, '').replace(FRAMES, (_, line, column) => {
        const origin = originOf(Number(line), Number(column))
        return (origin.file ?? 'function.ts') + ':' + origin.line + ':' + origin.column
      })
    : text

const describe = (thrown) => {
  if (!(thrown instanceof Error)) return { name: 'Error', message: typeof thrown === 'string' ? thrown : inspect(thrown) }
  const [, line, column] = FRAME.exec(String(thrown.stack)) ?? []
  const origin = line === undefined ? {} : originOf(Number(line), Number(column))
  const denied = /Requires (\w+) access/.exec(thrown.message)
  const text = denied ? denied[0] + ': ' + NONE + '.' : String(thrown.message).replace(NAMED, '')
  const memory = thrown instanceof RangeError && /allocat/i.test(thrown.message)
  const code = thrown instanceof TenonError ? thrown.code : undefined
  return { name: String(thrown.name), message: text, ...origin, memory, code }
}
/** As describe, for values whose getters throw. */
const describeSafely = (thrown) => {
  try {
    const described = describe(thrown)
    described.message = described.message.slice(0, 4000)
    described.name = described.name.slice(0, 200)
    return described
  } catch {
    return { name: 'Error', message: 'It threw something that cannot be shown.' }
  }
}

/** An error of a call of the platform. */
class TenonError extends Error {
  constructor({ code, status, detail, message }) {
    super(message ?? detail ?? code)
    this.name = 'TenonError'
    Object.assign(this, { code, status, detail })
  }
}
`
