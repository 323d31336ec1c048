/** `wait`: lets time pass (OWS 1.0 "Wait"). */

import { durationIn, durationText } from '../compile/duration.ts'
import { valueAt } from '../compile/source-nodes.ts'
import type { TaskType } from './task.ts'

interface WaitBody {
  readonly durationMs: number
}

export const wait: TaskType<WaitBody> = {
  kind: 'wait',
  keys: ['wait'],
  compile(task, { context }) {
    const given = valueAt(task, 'wait')
    const durationMs = given && durationIn(given, 'A wait', 1, context)
    return durationMs === undefined ? undefined : { durationMs }
  },
  start({ durationMs }) {
    return { own: null, start: [{ key: 'wait', sleepMs: durationMs }] }
  },
  onChildEnd(_body, _own, _ended, { input }) {
    return { done: input }
  },
  summary({ durationMs }) {
    return `wait ${durationText(durationMs)}`
  },
}
