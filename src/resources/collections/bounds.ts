/** What a document may hold: bounds that are checked before any store is asked. */

import { LIMITS } from '../../core/limits.ts'
import { type InputError, Problem, type ProblemCode } from '../../core/problem.ts'
import type { Fields } from './fields.ts'
import type { Content } from './store.ts'

/** A fault, and the problem it is where there is no other kind beside it. */
interface Fault {
  readonly code: ProblemCode
  readonly error: InputError
}

interface Measure {
  keys: number
  /** PostgreSQL refuses half a pair, MongoDB would store another character. */
  halves: boolean
  readonly faults: Fault[]
}

/**
 * Refuses what could not be stored or read back the same: reserved names, NUL, too much of anything.
 * @throws Problem with every fault at once: `string_nul` or `number_unsafe` where that is all, else
 *   `validation_failed`; or `body_too_large`
 */
export function checkFields(fields: Fields): Content {
  const measure: Measure = { keys: 0, halves: false, faults: [] }
  for (const name of Object.keys(fields)) note(measure, reserved(name))
  inspect(fields, '', 1, measure)
  if (measure.halves) throw new Problem('value_invalid', { detail: 'A text holds half a surrogate pair.' })
  if (measure.keys > LIMITS.documentKeysMax)
    measure.faults.push(fault('', `has more than ${LIMITS.documentKeysMax} keys`))
  refuse(measure.faults)
  const text = JSON.stringify(fields)
  const bytes = Buffer.byteLength(text)
  if (bytes > LIMITS.documentBytesMax) {
    const detail = `The document has ${bytes} bytes; at most ${LIMITS.documentBytesMax} are stored.`
    throw new Problem('body_too_large', { detail, members: { limit_bytes: LIMITS.documentBytesMax } })
  }
  return { fields, text }
}

function refuse(faults: readonly Fault[]): void {
  const [first] = faults
  if (first === undefined) return
  const errors = faults.map(({ error }) => error)
  const detail = errors.map((error) => `${error.pointer || 'the document'} ${error.detail}`).join('; ')
  const code = faults.every((other) => other.code === first.code) ? first.code : 'validation_failed'
  throw new Problem(code, { detail, errors })
}

function reserved(name: string): Fault | undefined {
  if (name === 'id') return fault('/id', 'is assigned by the server')
  if (!/^[_$]/.test(name)) return undefined
  return fault(`/${token(name)}`, 'is reserved: no name begins with _ or $')
}

/** Keeps the first faults: a reply must not grow with what was sent. */
function note(measure: Measure, found: Fault | undefined): void {
  if (found !== undefined && measure.faults.length < LIMITS.faultsShownMax) measure.faults.push(found)
}

const HALF = /\p{Surrogate}/u

/** Depth is bounded first, so the walk itself is; keys are, so that it ends soon. */
function inspect(value: unknown, pointer: string, depth: number, measure: Measure): void {
  note(measure, faultOf(value, pointer))
  if (typeof value === 'string') measure.halves ||= HALF.test(value)
  if (typeof value !== 'object' || value === null || measure.keys > LIMITS.documentKeysMax) return
  if (depth > LIMITS.documentDepthMax) {
    note(measure, fault(pointer, `is nested deeper than ${LIMITS.documentDepthMax}`))
    return
  }
  for (const [name, member] of Object.entries(value)) {
    if (!Array.isArray(value)) {
      measure.keys += 1
      measure.halves ||= HALF.test(name)
      note(measure, faultOfName(name, pointer))
    }
    inspect(member, `${pointer}/${token(name)}`, depth + 1, measure)
  }
}

/** Queries name fields: what they could not name is not stored. */
function faultOfName(name: string, pointer: string): Fault | undefined {
  if (name === '') return fault(pointer, 'has a name that is empty')
  if (name.includes('\u0000')) return fault(pointer, 'has a name with a NUL character', 'string_nul')
  // A code unit is at most three bytes: most names need not be counted.
  if (name.length * 3 <= LIMITS.fieldNameBytesMax || Buffer.byteLength(name) <= LIMITS.fieldNameBytesMax)
    return undefined
  return fault(`${pointer}/${token(name)}`, `is a name of more than ${LIMITS.fieldNameBytesMax} bytes`)
}

/** What of a single value would not read back the same. */
function faultOf(value: unknown, pointer: string): Fault | undefined {
  if (typeof value === 'string')
    return value.includes('\u0000') ? fault(pointer, 'holds a NUL character', 'string_nul') : undefined
  if (typeof value !== 'number') return undefined
  if (!Number.isFinite(value)) return fault(pointer, 'is a number too large to be kept', 'number_unsafe')
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return undefined
  return fault(pointer, 'is an integer beyond 2^53 and would not read back the same', 'number_unsafe')
}

/** A member's name as a reference token (RFC 6901 §3); a very long one is cut. */
const token = (name: string) => name.slice(0, 100).replaceAll('~', '~0').replaceAll('/', '~1')

function fault(pointer: string, detail: string, code: ProblemCode = 'validation_failed'): Fault {
  return { code, error: { in: 'body', name: pointer.split('/')[1] ?? '', pointer, detail } }
}
