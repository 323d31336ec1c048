/** Texts that a model will read: what people who approve them could not see is refused. */

import { LIMITS } from '../../core/limits.ts'
import { type InputError, Problem } from '../../core/problem.ts'
import { hiddenIn } from '../../core/visible-text.ts'

/** @returns a fault for the first hidden character; line breaks and tabs are none */
export function hidden(text: string, pointer: string): InputError | undefined {
  const detail = hiddenIn(text.replaceAll(/[\n\t]/g, ' '))
  if (detail === undefined) return undefined
  return { in: 'body', name: pointer.split('/')[1] ?? '', pointer, detail }
}

/** @throws Problem `validation_failed` with the first of them, where there are any */
export function refuse(errors: readonly (InputError | undefined)[]): void {
  const found = errors.filter((error) => error !== undefined).slice(0, LIMITS.faultsShownMax)
  if (found.length === 0) return
  const detail = found.map((error) => `${error.pointer} ${error.detail}`).join('; ')
  throw new Problem('validation_failed', { detail, errors: found })
}
