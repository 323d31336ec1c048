/** Knows when a flow runs by itself (OWS 1.0 "Schedule"). */

import type { Checker } from './checker.ts'
import { CLOCK_OPTIONS, CLOCK_TRIGGERS, compileClock } from './clock.ts'
import type { EventStrategy, Schedule } from './ir.ts'
import { entryOf, type LocatedMap } from './located.ts'
import { compileStrategy } from './tasks/event-filters.ts'
import { compileWebhooks } from './webhook.ts'

const TRIGGERS = [...CLOCK_TRIGGERS, 'on', 'webhook']
const READS = ['data', 'envelope', 'raw'] as const

export function compileSchedule(flow: LocatedMap, checker: Checker): Schedule | undefined {
  const given = entryOf(flow, 'schedule')?.value
  const map = given && checker.map(given, '`schedule`')
  if (map === undefined) return undefined
  checker.keys(map, '`schedule`', [...TRIGGERS, 'read', ...CLOCK_OPTIONS])
  if (!map.entries.some(({ key }) => TRIGGERS.includes(key))) {
    const hint = `Write one of: ${TRIGGERS.join(', ')}.`
    return checker.fault('missing_key', map, '`schedule` must say when.', hint)
  }
  const clock = compileClock(map, checker)
  const on = compileOn(map, checker)
  const read = compileRead(map, checker)
  const webhooks = compileWebhooks(map, checker)
  return {
    ...clock,
    ...(on !== undefined && { on }),
    ...(read !== undefined && { read }),
    ...(webhooks !== undefined && { webhooks }),
  }
}

/** Events are looked at before there is a run, so that the filters see nothing but the event. */
function compileOn(map: LocatedMap, checker: Checker): EventStrategy | undefined {
  const given = entryOf(map, 'on')?.value
  const inner = given && checker.map(given, '`on`')
  if (inner === undefined) return undefined
  checker.keys(inner, '`on`', ['one', 'any', 'all'], ['until'])
  return checker.only([], () => compileStrategy(inner, '`on`', checker))
}

function compileRead(map: LocatedMap, checker: Checker): Schedule['read'] {
  const given = entryOf(map, 'read')?.value
  const text = given && checker.text(given, '`read`')
  if (given === undefined || text === undefined) return undefined
  if (entryOf(map, 'on') === undefined) {
    return checker.fault('value_invalid', given, '`read` belongs to `on`, which is not there.')
  }
  const read = READS.find((one) => one === text)
  return read ?? checker.unknown('value_invalid', given, `\`read\` cannot be \`${text}\`.`, text, READS)
}
