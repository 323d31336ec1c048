/** The outcome of an invocation: its result, or the Problem that its ending means. */

import { isTooDeep } from '../../../core/json.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import type { GuestError } from './guest-program.ts'
import type { Invocation, Outcome, Usage } from './invocation.ts'
import type { Report } from './run-invocation.ts'

/** Of every problem: the last lines of the log, and the usage. */
interface Members {
  readonly logs: readonly string[]
  readonly usage: Usage
}

/** @throws Problem for every ending but a result */
export function outcomeOf({ ending, logs }: Report, usage: Usage, invocation: Invocation): Outcome {
  const members = { logs, usage }
  switch (ending.kind) {
    case 'result':
      return { result: resultOf(ending.text, members), usage }
    case 'error':
      throw problemOf(parsed(ending.text), invocation, members)
    case 'timeout': {
      const detail = `The function had not returned after ${invocation.timeoutMs} ms.`
      throw new Problem('function_timeout', { detail, members: { ...members } })
    }
    case 'memory':
      throw outOfMemory(invocation, members)
    case 'too_large': {
      const detail = `The result has more than ${FUNCTION_LIMITS.resultBytesMax} bytes.`
      throw new Problem('function_output_too_large', { detail, members: { ...members } })
    }
    case 'too_loud':
      throw failed('It printed too much.', members)
    case 'broken':
      throw failed('It disturbed the channel between its process and the platform.', members)
    case 'given_up': {
      const detail = 'The run was cancelled, or the worker was stopped, while the function ran.'
      throw new Problem('run_cut_off', { detail, members: { ...members } })
    }
    case 'died':
      throw failed('Its process ended before it returned.', members)
  }
}

/** True if code says that its process must not be used again, or if its answer makes no sense. */
export function isFatal({ ending }: Report): boolean {
  if (ending.kind === 'result') return false
  if (ending.kind !== 'error') return true
  const { fatal, memory } = (parsed(ending.text) ?? { fatal: true }) as GuestError
  return fatal === true || memory === true
}

function resultOf(text: string, members: Members): Json {
  const value = parsed(text)
  if (value === undefined) throw failed('Its result is no JSON.', members)
  if (isTooDeep(value))
    throw failed(`Its result is nested deeper than ${CORE_LIMITS.valueDepthMax}.`, members)
  return value
}

function problemOf(value: Json | undefined, invocation: Invocation, members: Members): Problem {
  const { name, message, line, column, file, memory, response } = (value ?? {}) as GuestError
  if (memory === true) return outOfMemory(invocation, members)
  if (response === true) return isResponse(members)
  const error = {
    name: textOf(name).slice(0, FUNCTION_LIMITS.errorNameCharsMax),
    ...(isPosition(line) && isPosition(column) && { line, column, ...fileOf(file) }),
  }
  return failed(textOf(message) || textOf(name) || 'It threw.', { ...members, error })
}

const isResponse = (members: Members) =>
  new Problem('function_output_invalid', {
    detail:
      'The default export returned a Response. Return JSON, or name the export `fetch`: it serves HTTP.',
    members: { ...members },
  })

const failed = (detail: string, members: object) =>
  new Problem('function_error', { detail, members: { ...members } })

const outOfMemory = ({ memoryMb }: Invocation, members: Members) =>
  new Problem('function_out_of_memory', {
    detail: `The function can use at most ${memoryMb} MB.`,
    members: { ...members },
  })

const textOf = (value: unknown) =>
  typeof value === 'string'
    ? value.slice(0, FUNCTION_LIMITS.messageCharsMax).replaceAll('\0', '\u{fffd}')
    : ''
/** Code may forge its stack: no source has as many lines or columns as that. */
const isPosition = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) > 0 && Number(value) <= FUNCTION_LIMITS.sandbox.positionMax

/** The name of a source in the source map of a bundle. It is shown, never opened. */
function fileOf(file: unknown): { file?: string } {
  if (typeof file !== 'string' || file === '') return {}
  return { file: file.replaceAll(/\p{C}/gu, '').slice(0, FUNCTION_LIMITS.sandbox.fileNameCharsMax) }
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json
  } catch {
    return undefined
  }
}
