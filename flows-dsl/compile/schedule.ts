/** Compiles the triggers of a flow: clock, events and webhooks (OWS 1.0 "Schedule"). */

import type { EventStrategy, Schedule } from '../ir.ts'
import { omitUndefined } from '../json.ts'
import { compileStrategy } from '../tasks/event-filters.ts'
import type { CompileContext } from './compile-context.ts'
import { parseCron } from './cron.ts'
import { optionalDuration } from './duration.ts'
import { entryOf, type MapNode, type ScalarNode, type SourceNode, valueAt } from './source-nodes.ts'
import { isTimezone, timezones } from './timezones.ts'
import { compileWebhooks } from './webhooks.ts'

const CLOCK_TRIGGERS = ['every', 'cron', 'after']
export const TRIGGERS = [...CLOCK_TRIGGERS, 'on', 'webhook']
const READS = ['data', 'envelope', 'raw'] as const
export const OVERLAPS = ['skip', 'buffer_one', 'buffer_all', 'cancel_other', 'allow_all'] as const
/** Each cron expression becomes a Temporal schedule of its own. */
export const CRONS_MAX = 20
/** Options of the clock, each with the triggers that it applies to. */
export const CLOCK_OPTIONS: Readonly<Record<string, readonly string[]>> = {
  timezone: ['cron'],
  overlap: ['every', 'cron'],
  jitter: ['every', 'cron'],
  catchUp: CLOCK_TRIGGERS,
}
const CATCH_UP_MS_MIN = 10_000

export function compileSchedule(flow: MapNode, context: CompileContext): Schedule | undefined {
  const map = context.optionalMap(flow, 'schedule', [...TRIGGERS, 'read', ...Object.keys(CLOCK_OPTIONS)])
  if (map === undefined) return undefined
  if (!map.entries.some(({ key }) => TRIGGERS.includes(key))) {
    const hint = `Write one of: ${TRIGGERS.join(', ')}.`
    return context.report('missing_key', map, '`schedule` needs a trigger.', hint)
  }
  for (const key of Object.keys(CLOCK_OPTIONS)) checkApplies(map, key, context)
  return omitUndefined({
    everyMs: compileEvery(map, context),
    cron: compileCron(map, context),
    afterMs: optionalDuration(map, 'after', 0, context),
    timezone: compileTimezone(map, context),
    overlap: context.optionalChoice(map, 'overlap', OVERLAPS),
    catchUpMs: compileCatchUp(map, context),
    jitterMs: optionalDuration(map, 'jitter', 0, context),
    on: compileOn(map, context),
    read: compileRead(map, context),
    webhooks: compileWebhooks(map, context),
  })
}

/** Filters are evaluated before an execution exists, so they see nothing but the event. */
function compileOn(map: MapNode, context: CompileContext): EventStrategy | undefined {
  const inner = context.optionalMap(map, 'on', ['one', 'any', 'all'], ['until'])
  if (inner === undefined) return undefined
  return context.onlyVariables([], () => compileStrategy(inner, '`on`', context))
}

function compileRead(map: MapNode, context: CompileContext): Schedule['read'] {
  if (entryOf(map, 'on') === undefined && context.optionalText(map, 'read') !== undefined) {
    const at = valueAt(map, 'read') ?? map
    return context.report('value_invalid', at, '`read` requires `on`.')
  }
  return context.optionalChoice(map, 'read', READS)
}

/** Temporal schedules have a resolution of one second. */
function compileEvery(map: MapNode, context: CompileContext): number | undefined {
  const everyMs = optionalDuration(map, 'every', 1, context)
  if (everyMs === undefined || everyMs % 1_000 === 0) return everyMs
  return context.report('duration_invalid', valueAt(map, 'every') ?? map, '`every` must be in whole seconds.')
}

function compileCatchUp(map: MapNode, context: CompileContext): number | undefined {
  const catchUpMs = optionalDuration(map, 'catchUp', 1, context)
  if (catchUpMs === undefined || catchUpMs >= CATCH_UP_MS_MIN) return catchUpMs
  const message = '`catchUp` must be at least 10 seconds.'
  return context.report('duration_invalid', valueAt(map, 'catchUp') ?? map, message)
}

/** One expression, or a list of them. */
function compileCron(map: MapNode, context: CompileContext): readonly string[] | undefined {
  const node = valueAt(map, 'cron')
  if (node === undefined) return undefined
  const items = node.kind === 'list' ? node.items : [node]
  if (items.length === 0) {
    return context.report('wrong_type', node, '`cron` must be an expression, or a list of them.')
  }
  if (items.length > CRONS_MAX) {
    return context.report('value_invalid', node, `\`cron\` has at most ${CRONS_MAX} expressions.`)
  }
  const crons: string[] = []
  for (const item of items) {
    const cron = compileCronExpression(item, context)
    if (cron === undefined) continue
    if (crons.includes(cron))
      context.report('value_invalid', item, `The cron expression \`${cron}\` occurs twice.`)
    crons.push(cron)
  }
  return crons
}

function checkApplies(map: MapNode, option: string, context: CompileContext): void {
  const node = valueAt(map, option)
  const triggers = CLOCK_OPTIONS[option] ?? []
  if (node === undefined || triggers.some((one) => entryOf(map, one) !== undefined)) return
  const names = triggers.map((one) => `\`${one}\``).join(', ')
  context.report('value_invalid', node, `\`${option}\` has no effect without ${names}.`)
}

function compileTimezone(map: MapNode, context: CompileContext): string | undefined {
  const name = context.optionalText(map, 'timezone')
  if (name === undefined || isTimezone(name)) return name
  const message = `\`${name}\` is not a time zone of the IANA database.`
  const at = valueAt(map, 'timezone') ?? map
  const city = timezones().find((zone) => zone.split('/').at(-1)?.toLowerCase() === name.toLowerCase())
  const remedy = city === undefined ? undefined : `Write ${city}.`
  return context.reportUnknown('value_invalid', at, message, name, timezones(), remedy)
}

/** @returns the expression in capitals, with single spaces between its fields */
function compileCronExpression(node: SourceNode, context: CompileContext): string | undefined {
  const text = context.text(node, '`cron`')
  if (text === undefined) return undefined
  const parsed = parseCron(text)
  if ('cron' in parsed) return parsed.cron
  for (const { message, hint, offset } of parsed.diagnostics) {
    const at = offset === undefined ? node : (node as ScalarNode).locationOf(offset)
    context.report('cron_invalid', at, message, hint)
  }
  return undefined
}
