/** Documents against a prepared schema: what is wrong with them, found in bounded time. */

import { createContext, Script } from 'node:vm'
import { Check, Errors } from 'typebox/schema'
import { Settings } from 'typebox/system'
import { LIMITS } from '../../core/limits.ts'
import { cutToken } from '../../core/pointer.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import { threadMs } from '../../platform/thread-time.ts'
import type { Prepared } from './prepare.ts'

Settings.Set({ maxErrors: LIMITS.faultsShownMax })

/** A fault of a document, with the keyword of the schema that says so. */
export interface Fault extends InputError {
  readonly keyword: string
}

/**
 * Every fault, at most `faultsShownMax`; none where the document is valid. The schema is interpreted: no text of it
 * becomes code.
 * @param fields the caller's fields, already within the bounds of documents
 * @throws Problem `validation_too_costly` where it takes longer than `validationMs`
 */
export function faultsOf(prepared: Prepared, fields: object): Fault[] {
  if (prepared.glance?.(fields as Readonly<Record<string, unknown>>, true)) return []
  return evaluated(prepared, fields)
}

function evaluated(prepared: Prepared, fields: object): Fault[] {
  const value = prepared.inherited ? bare(fields) : fields
  const evaluate = () => (Check(prepared.schema, value) ? [] : faultsFrom(Errors(prepared.schema, value)[1]))
  return isCheap(prepared, fields) ? evaluate() : watched(evaluate)
}

/**
 * The same for a change of some members of a document that fits a separable schema: the whole fits afterwards where
 * this finds nothing. A change sets members and takes none away, so what is required is there already.
 * @param fields the members that are set
 */
export function faultsOfChange(prepared: Prepared, fields: object): Fault[] {
  if (prepared.glance?.(fields as Readonly<Record<string, unknown>>, false)) return []
  const { required: _required, ...ofMembers } = Object(prepared.schema)
  return evaluated({ ...prepared, schema: ofMembers }, fields)
}

/** Whether the work is small whatever the schema says, so that the watch would cost more than it saves. */
function isCheap({ size, calm }: Prepared, fields: object): boolean {
  const extent: Extent = { values: 0, longest: 0 }
  measure(fields, extent)
  if (extent.values * size > LIMITS.validationUnwatchedSteps) return false
  return extent.longest <= (calm ? LIMITS.matchedCharsMax : 0)
}

/** A copy whose objects inherit nothing. */
function bare(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(bare)
  const copy: Record<string, unknown> = Object.create(null)
  for (const [name, member] of Object.entries(value)) copy[name] = bare(member)
  return copy
}

interface Extent {
  values: number
  /** Characters of the longest text; of a name as well, since patterns meet those too. */
  longest: number
}

function measure(value: unknown, extent: Extent): void {
  extent.values += 1
  if (typeof value === 'string') extent.longest = Math.max(extent.longest, value.length)
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) {
    if (!Array.isArray(value)) extent.longest = Math.max(extent.longest, name.length)
    measure(member, extent)
  }
}

const CLOCK = createContext({ evaluate: (): unknown => undefined })
const RUN = new Script('evaluate()')

/**
 * The clock of `node:vm` stops whatever runs below it, the matching of a regular expression included. It is a clock on
 * the wall: where the processor was mostly given to others, the work is begun again with twice the time.
 */
function watched<T>(evaluate: () => T): T {
  CLOCK['evaluate'] = evaluate
  try {
    for (let timeout: number = LIMITS.validationMs; ; timeout *= 2) {
      const beforeMs = threadMs()
      const ended = within<T>(timeout)
      if (ended !== TIMED_OUT) return ended
      if (threadMs() - beforeMs > LIMITS.validationMs / 2 || timeout > LIMITS.validationMs * 8) break
    }
  } finally {
    CLOCK['evaluate'] = undefined
  }
  const detail = `Validation against the collection's schema took more than ${LIMITS.validationMs} ms.`
  throw new Problem('validation_too_costly', { detail })
}

const TIMED_OUT = Symbol('timed out')

function within<T>(timeout: number): T | typeof TIMED_OUT {
  try {
    return RUN.runInContext(CLOCK, { timeout }) as T
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error
    return TIMED_OUT
  }
}

interface SchemaError {
  readonly keyword: string
  readonly schemaPath: string
  readonly instancePath: string
  readonly message: string
  readonly params: object
}

/** At least one: the library stops counting at some number, and what it counted may all be said by one fault. */
function faultsFrom(errors: readonly SchemaError[]): Fault[] {
  const faults = new Map(errors.flatMap(toFaults).map((fault) => [`${fault.keyword}${fault.pointer}`, fault]))
  const all = [...faults.values(), toFault('schema', '', 'does not fit the schema')]
  return all.slice(0, Math.min(Math.max(faults.size, 1), LIMITS.faultsShownMax))
}

/** One fault a name where the library lists several names in one, and once where it says the same thing twice. */
function toFaults({ keyword, schemaPath, instancePath, message, params }: SchemaError): Fault[] {
  const { additionalProperties = [], requiredProperties = [] } = params as {
    additionalProperties?: readonly string[]
    requiredProperties?: readonly string[]
  }
  const undeclared = (pointer: string) => toFault('additionalProperties', pointer, 'is not a declared field')
  const forbids = keyword === 'boolean' && schemaPath.endsWith('/additionalProperties')
  if (forbids) return [undeclared(instancePath)]
  if (keyword === 'boolean') return [toFault('false', instancePath, 'is not allowed')]
  if (keyword === 'additionalProperties')
    return additionalProperties.map((name) => undeclared(below(instancePath, name)))
  if (keyword === 'required')
    return requiredProperties.map((name) => toFault(keyword, below(instancePath, name), 'is required'))
  return [toFault(keyword, instancePath, message)]
}

const below = (pointer: string, name: string) => `${pointer}/${cutToken(name)}`

function toFault(keyword: string, pointer: string, detail: string): Fault {
  const short = pointer.slice(0, 300)
  return {
    in: 'body',
    name: short.split('/')[1] ?? '',
    pointer: short,
    keyword,
    detail: detail.slice(0, 300),
  }
}
