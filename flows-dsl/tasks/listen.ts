/** `listen`: waits for events, and runs tasks for each (OWS 1.0 "Listen"). */

import type { Json, JsonObject } from '../ir.ts'
import { compileListen, type ListenBody } from './listen-body.ts'
import { keep, type Listening, newListening, take, typesOf } from './listening.ts'
import { type Child, doneAs, type Move, type Running, type TaskType } from './task.ts'

export const listen: TaskType<ListenBody> = {
  kind: 'listen',
  keys: ['listen', 'foreach'],
  isAnswered: true,
  compile: compileListen,
  lists({ foreach }) {
    return foreach === undefined ? {} : { foreach: [foreach.task] }
  },
  start(body, running) {
    const listening = newListening(body, running)
    const types = typesOf(body)
    const details = types === undefined ? {} : { types }
    return goThrough(body, listening, running, [{ key: 'events', await: 'events', details }])
  },
  next(body, own, ended, running) {
    // Where the host itself answers what the task waits for, that is the output.
    if (ended.left === 'end' || ended.key === 'events') return doneAs(ended)
    const listening = own as unknown as Listening
    listening.isBusy = false
    keep(listening, body, ended.output, running)
    return goThrough(body, listening, running)
  },
  told(body, own, message, running) {
    const listening = own as unknown as Listening
    const taken = 'event' in message ? consume(body, listening, message.event, running) : undefined
    return taken && moveOf(listening, taken)
  },
  summary(body) {
    return `listen to ${body.to.mode} of ${typesOf(body)?.join(', ') ?? 'all events'}`
  },
}

/** Looks at the events that are there already, and waits for more. */
function goThrough(
  body: ListenBody,
  listening: Listening,
  running: Running,
  begin: readonly Child[] = [],
): Move {
  const children = [...begin]
  running.early((event) => {
    const begun = consume(body, listening, event, running)
    children.push(...(begun ?? []))
    return begun !== undefined
  })
  return moveOf(listening, children)
}

function moveOf(listening: Listening, begin: readonly Child[]): Move {
  if (listening.isOver) return { done: listening.outputs }
  return { own: listening as unknown as Json, begin }
}

/** What is begun for an event, if it is taken. */
function consume(
  body: ListenBody,
  listening: Listening,
  event: JsonObject,
  running: Running,
): readonly Child[] | undefined {
  const { isTaken, item } = take(listening, body, event, running)
  if (!isTaken) return undefined
  if (item === undefined) return []
  if (body.foreach === undefined) {
    keep(listening, body, item, running)
    return []
  }
  listening.isBusy = true
  const variables = { [body.foreach.item]: item, [body.foreach.at]: listening.taken - 1 }
  return [{ key: 'each', list: 'foreach', input: item, variables }]
}
