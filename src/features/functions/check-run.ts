/** Checks a run against what its version exports: the function to call, and the schemas of input and output. */

import Format from 'typebox/format'
import { newBudget } from '../../../flows-dsl/budget.ts'
import { escapePointer } from '../../core/json.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import type { FunctionRunInput, Json } from '../../core/work.ts'
import { checkBudget, errorsWithin, TOO_COSTLY } from '../schema-errors.ts'
import type { EntryPoint } from './sandbox/compile.ts'

type Schema = Readonly<Record<string, unknown>>
type SchemaErrors = ReturnType<typeof errorsWithin>
type Checked = Pick<FunctionRunInput, 'kind' | 'trigger' | 'secrets'>

/**
 * True if the input is also checked before the run is recorded, so that the caller gets the error. A trigger has no caller:
 * its run is recorded and fails. Handles in the input have to be replaced by secrets first.
 */
export const isCheckedEarly = ({ kind = 'call', trigger, secrets }: Partial<Checked>): boolean =>
  kind === 'call' && secrets === undefined && trigger?.kind !== 'schedule' && trigger?.kind !== 'event'

/**
 * On the thread that serves requests. A check that takes too many steps there is left to the worker.
 * @throws Problem as {@link checkInput} does
 */
export function checkInputEarly(schema: Schema, input: Json): void {
  const errors = errorsWithin(schema, input, checkBudget(), Format.Test)
  if (!errors.includes(TOO_COSTLY)) rejectInput(errors)
}

const NEEDED = {
  call: { name: 'default', detail: 'The function has no default export, so it is called at /http alone.' },
  fetch: { name: 'fetch', detail: 'The function exports no `fetch`, so it serves no HTTP requests.' },
} as const

/**
 * @param exports those of the version, as deployment has stored them
 * @throws Problem `state_conflict`
 */
export function requireExport(exports: readonly EntryPoint[], kind: 'call' | 'fetch'): void {
  const { name, detail } = NEEDED[kind]
  if (!exports.includes(name)) throw new Problem('state_conflict', { detail })
}

/** @throws Problem `validation_failed` with the first errors, by pointers into the input */
export function checkInput(
  schema: Schema | null,
  { kind, input }: Pick<FunctionRunInput, 'kind' | 'input'>,
): void {
  if (schema !== null && kind === 'call') rejectInput(errorsOf(schema, input))
}

function rejectInput(errors: SchemaErrors): void {
  if (errors.length === 0) return
  throw new Problem('validation_failed', {
    detail: `The input does not match the schema of the function: ${summary(errors)}.`,
    errors: errors.map(({ pointer, message, missing }): InputError => {
      const at = missing === undefined ? pointer : `${pointer}/${escapePointer(missing)}`
      const detail = missing === undefined ? message : 'is required'
      return { in: 'body', name: at.split('/')[1] ?? '', pointer: at, detail }
    }),
  })
}

/** @throws Problem `function_output_invalid` */
export function checkOutput(schema: Schema | null, { kind, trigger }: Checked, result: Json): void {
  if (schema === null || kind !== 'call' || (trigger.kind === 'mcp' && asksClient(result))) return
  const errors = errorsOf(schema, result)
  if (errors.length === 0) return
  throw new Problem('function_output_invalid', {
    detail: `The result does not match the schema of the function: ${summary(errors)}.`,
  })
}

/** A tool may return requests to its client in place of a result (docs/functions.md, "Asking the client"). */
const asksClient = (result: Json): boolean => Object(result).resultType === 'input_required'

const errorsOf = (schema: Schema, value: Json): SchemaErrors =>
  errorsWithin(schema, value, newBudget(), Format.Test)

function summary(errors: SchemaErrors): string {
  const [first] = errors
  const where = first?.pointer || (first === TOO_COSTLY ? 'its values' : 'it')
  const what = first?.missing === undefined ? first?.message : `has no \`${first.missing}\``
  return `${where} ${what}${errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''}`
}
