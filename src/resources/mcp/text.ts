/** Texts that a model will read: what people who approve them could not see is refused. */

import { LIMITS } from '../../core/limits.ts'
import { type InputError, Problem } from '../../core/problem.ts'

/** Controls, format characters (zero-width, bidi, tags), private use, and the selectors that can carry hidden text. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]|[\u{fe00}-\u{fe0e}]|[\u{e0100}-\u{e01ef}]/u

/** @returns a fault for the first hidden character; line breaks and tabs are none */
export function hidden(text: string, pointer: string): InputError | undefined {
  const found = HIDDEN.exec(text.replaceAll(/[\n\t]/g, ' '))
  if (found === null) return undefined
  const point = found[0].codePointAt(0)?.toString(16).padStart(4, '0').toUpperCase()
  return {
    in: 'body',
    name: pointer.split('/')[1] ?? '',
    pointer,
    detail: `holds the invisible character U+${point} at ${found.index}`,
  }
}

/** @throws Problem `validation_failed` with the first of them, where there are any */
export function refuse(errors: readonly (InputError | undefined)[]): void {
  const found = errors.filter((error) => error !== undefined).slice(0, LIMITS.faultsShownMax)
  if (found.length === 0) return
  const detail = found.map((error) => `${error.pointer} ${error.detail}`).join('; ')
  throw new Problem('validation_failed', { detail, errors: found })
}
