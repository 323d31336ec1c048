/** Knows the builtins of dates. All times are UTC: a flow has no zone of its own. */

import type { Json } from '../../json.ts'
import { type Budget, checkSize, spend } from '../budget.ts'
import { failure } from '../failure.ts'
import type { ValueBuiltins } from './builtin.ts'
import { brokenDown, type Moment, momentFrom, momentOf, secondsOf } from './calendar.ts'
import { formatTime } from './strftime.ts'
import { parseTime } from './strptime.ts'

/** What reading or writing a date costs, besides what is there to read or write. */
const STEPS = 4

/** Characters that two of a format can become: `%c`. */
const LETTER_MAX = 24

export const DATES: ValueBuiltins = {
  'mktime/0': ({ budget }, input) => {
    if (!Array.isArray(input)) throw failure('mktime requires array inputs')
    spend(budget, input.length)
    return secondsOf(momentFrom(input, 'mktime'))
  },
  'gmtime/0': (_run, input) => broken(input, 'gmtime()'),
  'localtime/0': (_run, input) => broken(input, 'localtime()'),
  'strftime/1': ({ budget }, input, format) => written(input, format, 'strftime/1', budget),
  'strflocaltime/1': ({ budget }, input, format) => written(input, format, 'strflocaltime/1', budget),
  'strptime/1': ({ budget }, input, format) => {
    if (typeof input !== 'string' || typeof format !== 'string') {
      throw failure('strptime/1 requires string inputs and arguments')
    }
    spend(budget, STEPS + ((input.length + format.length) >> 4))
    const { moment, rest } = parseTime(input, format)
    return rest === '' ? brokenDown(moment) : [...brokenDown(moment), rest]
  },
}

function broken(input: Json, name: string): number[] {
  if (typeof input !== 'number') throw failure(`${name} requires numeric inputs`)
  return brokenDown(momentOf(input))
}

function written(input: Json, format: Json, name: string, budget: Budget): string {
  if (Array.isArray(input)) spend(budget, input.length)
  const moment: Moment = typeof input === 'number' ? momentOf(input) : momentFrom(input, name)
  if (typeof format !== 'string') throw failure(`${name} requires a string format`)
  spend(budget, STEPS + (format.length >> 3))
  checkSize(budget, format.length * LETTER_MAX)
  return formatTime(moment, format)
}
