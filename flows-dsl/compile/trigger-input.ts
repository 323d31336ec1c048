/** Reports triggers whose input can never match `input.schema`: each of their executions would fault. */

import { newBudget } from '../budget.ts'
import { FlowError } from '../errors.ts'
import type { FlowIR, Json, Schedule } from '../ir.ts'
import { fieldOf, isObject } from '../json.ts'
import { schemaErrors } from '../json-schema/validate.ts'
import type { CompileContext } from './compile-context.ts'
import { type MapNode, valueAt } from './source-nodes.ts'

const CLOCK = ['every', 'cron', 'after'] as const
/** Members of the input of a webhook, the last two only with `include`. */
const WEBHOOK_MEMBERS = ['id', 'time', 'headers', 'body', 'query', 'raw']

/** Reports one fault for each kind of trigger, at the trigger. */
export function checkTriggerInput(
  flow: MapNode,
  { input, schedule }: Partial<Pick<FlowIR, 'input' | 'schedule'>>,
  context: CompileContext,
): void {
  const schema = input?.schema
  const map = valueAt(flow, 'schedule')
  if (schema === undefined || schedule === undefined || map?.kind !== 'map') return
  for (const { key, what, mismatch } of triggersOf(schedule, schema)) {
    if (mismatch === undefined) continue
    const hint = 'Relax the schema, or check the input in a task.'
    const message = `${what}, which the schema of the input never accepts: ${mismatch}.`
    context.report('trigger_input_invalid', valueAt(map, key) ?? map, message, hint)
  }
}

interface TriggerInput {
  readonly key: string
  readonly what: string
  /** Why no input of the trigger can match. */
  readonly mismatch: string | undefined
}

function triggersOf(schedule: Schedule, schema: Json): TriggerInput[] {
  const clock = { everyMs: 'every', cron: 'cron', afterMs: 'after' } as const
  const times = CLOCK.filter((key) =>
    Object.entries(clock).some(([field, name]) => name === key && field in schedule),
  )
  return [
    ...times.map((key) => ({
      key,
      what: 'The clock starts executions with the input {}',
      mismatch: mismatchOf(schema, {}),
    })),
    ...(schedule.on === undefined
      ? []
      : [
          {
            key: 'on',
            what: 'Events start executions with a list of events as input',
            mismatch: excludes(schema, 'array'),
          },
        ]),
    ...(schedule.webhooks === undefined
      ? []
      : [
          {
            key: 'webhook',
            what: 'A webhook starts executions with { id, time, headers, body } as input',
            mismatch: webhookMismatch(schema),
          },
        ]),
  ]
}

/** The first error of a known input. A schema that takes too many steps is left to the execution. */
function mismatchOf(schema: Json, input: Json): string | undefined {
  try {
    const [error] = schemaErrors(schema, input, newBudget())
    return error && `${error.pointer === '' ? 'it' : error.pointer} ${error.message}`
  } catch (error) {
    if (error instanceof FlowError) return undefined
    throw error
  }
}

/** True if the `type` of the schema excludes a type. */
function excludes(schema: Json, type: string): string | undefined {
  if (schema === false) return 'it accepts nothing'
  const types = [isObject(schema) ? (fieldOf(schema, 'type') ?? type) : type].flat()
  return types.includes(type) ? undefined : `it must be of type ${types.join(' or ')}`
}

function webhookMismatch(schema: Json): string | undefined {
  const excluded = excludes(schema, 'object')
  if (excluded !== undefined || !isObject(schema)) return excluded
  const required = fieldOf(schema, 'required')
  const names = Array.isArray(required) ? required : []
  const missing = names.find((name) => !WEBHOOK_MEMBERS.includes(String(name)))
  return missing === undefined
    ? undefined
    : `it must have the property ${missing}, which would be in \`body\``
}
