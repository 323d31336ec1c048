/** Knows the builtins of dates. All times are UTC: a flow has no zone of its own. */

import type { Json } from '../../json.ts'
import { type Budget, checkSize, spend } from '../budget.ts'
import { failure } from '../failure.ts'
import type { ValueBuiltins } from './builtin.ts'
import { brokenDown, type Moment, momentFrom, momentOf, secondsOf } from './calendar.ts'
import { formatTime } from './strftime.ts'
import { parseTime } from './strptime.ts'

/** What reading or writing a date costs, besides what is there to read or write. */
const STEPS = 8

/** Characters that two of a format can become: `%c`. */
const LETTER_MAX = 24

export const DATES: ValueBuiltins = {
  'mktime/0': ({ budget }, input) => {
    if (!Array.isArray(input)) throw failure('mktime requires array inputs')
    spend(budget, STEPS + input.length)
    return secondsOf(momentFrom(input, 'mktime'))
  },
  'gmtime/0': ({ budget }, input) => broken(input, 'gmtime()', budget),
  'localtime/0': ({ budget }, input) => broken(input, 'localtime()', budget),
  'strftime/1': ({ budget }, input, format) => written(input, format, 'strftime/1', budget),
  'strflocaltime/1': ({ budget }, input, format) => written(input, format, 'strflocaltime/1', budget),
  'strptime/1': ({ budget }, input, format) => {
    if (typeof input !== 'string' || typeof format !== 'string') {
      throw failure('strptime/1 requires string inputs and arguments')
    }
    spend(budget, STEPS + input.length + format.length)
    const { moment, rest } = parseTime(input, format)
    return rest === '' ? brokenDown(moment) : [...brokenDown(moment), rest]
  },
}

function broken(input: Json, name: string, budget: Budget): number[] {
  spend(budget, STEPS)
  if (typeof input !== 'number') throw failure(`${name} requires numeric inputs`)
  return brokenDown(momentOf(input))
}

function written(input: Json, format: Json, name: string, budget: Budget): string {
  spend(budget, STEPS + (Array.isArray(input) ? input.length : 0))
  const moment: Moment = typeof input === 'number' ? momentOf(input) : momentFrom(input, name)
  if (typeof format !== 'string') throw failure(`${name} requires a string format`)
  // Of two characters `%c` makes nine numbers and names.
  spend(budget, format.length * (format.includes('%c') ? LETTER_MAX : 2))
  checkSize(budget, format.length * LETTER_MAX)
  return formatTime(moment, format)
}
