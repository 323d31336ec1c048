/** `set`: makes an object, which becomes the output (OWS 1.0 "Set"). */

import { SCOPES } from '../checker.ts'
import type { Template } from '../ir.ts'
import { entryOf } from '../located.ts'
import type { TaskType } from './task.ts'

interface SetBody {
  readonly value: Template
}

export const set: TaskType<SetBody> = {
  kind: 'set',
  keys: ['set'],
  compile(task, { checker }) {
    const given = entryOf(task, 'set')?.value
    if (given === undefined) return undefined
    const isExpression =
      given.kind === 'scalar' && typeof given.value === 'string' && given.value.includes('${')
    const map = isExpression ? given : checker.map(given, '`set`')
    const value = map && checker.template(map, SCOPES.task)
    return value && { value }
  },
  start({ value }, { evaluate, input }) {
    return { done: evaluate(value, input) }
  },
  summary({ value }) {
    const names = 'object' in value ? value.object.map(([key]) => key) : Object.keys(literalOf(value))
    return `set ${names.join(', ')}`
  },
}

function literalOf(value: Template): object {
  return 'literal' in value && typeof value.literal === 'object' && value.literal !== null
    ? value.literal
    : {}
}
