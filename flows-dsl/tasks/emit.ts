/** `emit`: publishes an event (OWS 1.0 "Emit", "Event Properties"; CloudEvents 1.0 "Context Attributes"). */

import { type Checker, SCOPES } from '../checker.ts'
import { ERRORS, FlowError } from '../errors.ts'
import type { Json, JsonObject, Template } from '../ir.ts'
import { fieldOf, isObject, objectOf } from '../json.ts'
import { entryOf, type Located, type LocatedMap, type Place } from '../located.ts'
import { compileLocal, type Running, type TaskType } from './task.ts'

interface EmitBody {
  readonly event: Template
  readonly local?: true
}

/** The function of the platform that does it. */
const PUBLISH = 'event.publish'
const TEXTS = ['type', 'source', 'subject', 'datacontenttype', 'dataschema', 'id', 'time']

export const emit: TaskType<EmitBody> = {
  kind: 'emit',
  keys: ['emit'],
  compile(task, { checker }) {
    const entry = entryOf(task, 'emit')
    if (entry === undefined) return undefined
    requirePublish(entry.at, checker)
    const map = checker.map(entry.value, '`emit`')
    const event = map && inner(map, '`emit`', 'event', checker)
    const given = event && inner(event, '`event`', 'with', checker)
    const compiled = given && compileEvent(given, checker)
    if (compiled === undefined) return undefined
    const isLocal = checker.catalogue[PUBLISH]?.local === true
    const local = compileLocal(task, { may: isLocal, does: isLocal }, checker)
    return { ...compiled, ...(local && { local: true }) }
  },
  start(body, running) {
    const event = eventOf(running.evaluate(body.event, running.input), running)
    const args = { topic: event['type'] ?? null, data: event['data'] ?? null }
    const how = body.local === undefined ? {} : { local: body.local }
    return { own: event, begin: [{ key: 'publish', call: PUBLISH, arguments: args, ...how }] }
  },
  next(_body, event) {
    return { done: event }
  },
  summary({ event }) {
    const literal = 'literal' in event && isObject(event.literal) ? fieldOf(event.literal, 'type') : undefined
    const field = 'object' in event ? event.object.find(([key]) => key === 'type')?.[1] : undefined
    const type = literal ?? (field !== undefined && 'literal' in field ? field.literal : 'an event')
    return `emit ${String(type)}`
  },
}

function requirePublish(at: Place, checker: Checker): void {
  checker.functions.add(PUBLISH)
  if (Object.hasOwn(checker.catalogue, PUBLISH)) return
  const message = `\`emit\` needs the function \`${PUBLISH}\`, which is not there.`
  checker.fault('unknown_function', at, message)
}

/** The mapping below the one key of another. */
function inner(map: LocatedMap, what: string, key: string, checker: Checker): LocatedMap | undefined {
  checker.keys(map, what, [key])
  const value = checker.required(map, what, key)
  return value && checker.map(value, `\`${key}\``)
}

function compileEvent(given: LocatedMap, checker: Checker): EmitBody | undefined {
  checker.keys(given, '`with`', [...TEXTS, 'data'])
  checker.required(given, '`with`', 'type')
  for (const { key, value } of given.entries) if (TEXTS.includes(key)) checkText(value, key, checker)
  const event = checker.fields(given, SCOPES.task)
  return event && { event }
}

function checkText(value: Located, key: string, checker: Checker): void {
  const text = checker.text(value, `\`${key}\``)
  if (text === '') checker.fault('value_invalid', value, `\`${key}\` must not be empty.`)
}

/**
 * The event with all that CloudEvents requires. `source` and `id` together are unique, and the same at each
 * replay; what the definition gives stays.
 * @throws FlowError (expression) where an attribute is no text
 */
function eventOf(value: Json, { run, step, nowMs }: Running): JsonObject {
  const given = isObject(value) ? value : {}
  for (const key of TEXTS) {
    const text = fieldOf(given, key)
    if (text === undefined || (typeof text === 'string' && text !== '')) continue
    throw new FlowError(ERRORS.expression, `\`${key}\` of an event must be a string that is not empty.`)
  }
  const { namespace, name, version } = run.document
  return objectOf([
    ['specversion', '1.0'],
    ['id', `${run.id}${step.pointer}#${step.iteration}`],
    ['source', `/${namespace}/${name}/${version}`],
    ['time', new Date(nowMs()).toISOString()],
    ...Object.entries(given),
  ])
}
