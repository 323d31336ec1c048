/** `set`: makes an object, which becomes the output (OWS 1.0 "Set"). */

import { valueAt } from '../compile/source-nodes.ts'
import type { Template } from '../ir.ts'
import type { TaskType } from './task.ts'

interface SetBody {
  readonly value: Template
}

export const set: TaskType<SetBody> = {
  kind: 'set',
  keys: ['set'],
  compile(task, { context }) {
    const node = valueAt(task, 'set')
    const value = node && context.mapTemplate(node, '`set`')
    return value && { value }
  },
  start({ value }, { evaluate, input }) {
    return { done: evaluate(value, input) }
  },
  summary({ value }) {
    const literal = 'literal' in value ? (value.literal ?? {}) : {}
    const names = 'object' in value ? value.object.map(([key]) => key) : Object.keys(literal)
    return `set ${names.join(', ')}`
  },
}
