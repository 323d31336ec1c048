/** `emit`: publishes an event (OWS 1.0 "Emit", "Event Properties"; CloudEvents 1.0 "Context Attributes"). */

import { type CompileContext, SCOPES } from '../compile/compile-context.ts'
import { entryOf, type Location, type MapNode, valueAt } from '../compile/source-nodes.ts'
import { ERRORS, FlowError } from '../errors.ts'
import type { Json, JsonObject, Template } from '../ir.ts'
import { fieldOf, isObject, objectOf } from '../json.ts'
import { compileInlineOption, literalField, type TaskContext, type TaskType } from './task.ts'

interface EmitBody {
  readonly event: Template
  readonly local?: true
}

/** The platform function that publishes. */
const PUBLISH = 'event.publish'
const TEXTS = ['type', 'source', 'subject', 'datacontenttype', 'dataschema', 'id', 'time']

export const emit: TaskType<EmitBody> = {
  kind: 'emit',
  keys: ['emit'],
  compile(task, { context }) {
    const entry = entryOf(task, 'emit')
    if (entry === undefined) return undefined
    requirePublish(entry.at, context)
    const map = context.map(entry.value, '`emit`', ['event'])
    const event = map && context.requiredMap(map, '`emit`', 'event', ['with'])
    const node = event && context.requiredMap(event, '`event`', 'with', [...TEXTS, 'data'])
    const template = node && compileEvent(node, context)
    if (template === undefined) return undefined
    const isInline = compileInlineOption(task, context.catalogue[PUBLISH]?.local === true, context)
    return { event: template, ...(isInline && { local: true }) }
  },
  answeredBy() {
    return [PUBLISH]
  },
  start({ event: template, local }, task) {
    const event = eventOf(task.evaluate(template, task.input), task)
    const args = { topic: event['type'] ?? null, data: event['data'] ?? null }
    return {
      taskState: event,
      start: [{ key: 'publish', call: PUBLISH, arguments: args, ...(local && { local }) }],
    }
  },
  onChildEnd(_body, event) {
    return { done: event }
  },
  summary({ event }) {
    return `emit ${String(literalField(event, 'type') ?? 'an event')}`
  },
}

function requirePublish(at: Location, context: CompileContext): void {
  context.functions.add(PUBLISH)
  if (Object.hasOwn(context.catalogue, PUBLISH)) return
  context.report('unknown_function', at, `\`emit\` needs the function \`${PUBLISH}\`, which does not exist.`)
}

function compileEvent(node: MapNode, context: CompileContext): Template | undefined {
  context.required(node, '`with`', 'type')
  for (const key of TEXTS) {
    if (context.optionalText(node, key) === '')
      context.report('value_invalid', valueAt(node, key) ?? node, `\`${key}\` must not be empty.`)
  }
  return context.fields(node, SCOPES.task)
}

/**
 * The event with every attribute that CloudEvents requires; attributes of the definition win. `source` and `id`
 * together are unique and stable across replays.
 * @throws FlowError (expression) if an attribute is not a non-empty string
 */
function eventOf(value: Json, { run, step, nowMs }: TaskContext): JsonObject {
  const attributes = isObject(value) ? value : {}
  for (const key of TEXTS) {
    const text = fieldOf(attributes, key)
    if (text === undefined || (typeof text === 'string' && text !== '')) continue
    throw new FlowError(ERRORS.expression, `\`${key}\` of an event must be a string that is not empty.`)
  }
  const { namespace, name, version } = run.document
  return objectOf([
    ['specversion', '1.0'],
    ['id', `${run.id}${step.pointer}#${step.iteration}`],
    ['source', `/${namespace}/${name}/${version}`],
    ['time', new Date(nowMs()).toISOString()],
    ...Object.entries(attributes),
  ])
}
