/** `raise`: ends in an error (OWS 1.0 "Raise", "Error"). */

import { type Checker, SCOPES } from '../checker.ts'
import { ERRORS, FlowError, standardError } from '../errors.ts'
import type { Template } from '../ir.ts'
import { entryOf, type Located } from '../located.ts'
import type { Running, TaskType } from './task.ts'

interface RaiseBody {
  readonly type: Template
  readonly status: number
  readonly title?: Template
  readonly detail?: Template
  readonly instance?: Template
}

const POINTER = /^(?:\/(?:[^~/]|~[01])*)+$/

export const raise: TaskType<RaiseBody> = {
  kind: 'raise',
  keys: ['raise'],
  compile(task, { checker }) {
    const given = entryOf(task, 'raise')?.value
    const map = given && checker.map(given, '`raise`')
    if (map === undefined) return undefined
    checker.keys(map, '`raise`', ['error'])
    const source = checker.required(map, '`raise`', 'error')
    if (source?.kind !== 'scalar' || typeof source.value !== 'string')
      return source && compileError(source, checker)
    return checker.declared.find('errors', source, ({ value }) => compileError(value, checker))
  },
  start(body, running) {
    const type = textOf(body.type, 'type', running) ?? ''
    const title = textOf(body.title, 'title', running) ?? standardError(type)?.title ?? 'Error'
    const detail = textOf(body.detail, 'detail', running) ?? ''
    const instance = textOf(body.instance, 'instance', running)
    throw new FlowError({ type, status: body.status, title }, detail, instance)
  },
  summary({ type, status, title }) {
    const said = [title, type].map((one) => (one !== undefined && 'literal' in one ? one.literal : undefined))
    return `raise ${[status, said.find((one) => one !== undefined)].join(' ').trim()}`
  },
}

/** An error as it stands in `raise` or under `use.errors`. */
export function compileError(given: Located, checker: Checker): RaiseBody | undefined {
  const error = checker.map(given, '`error`')
  if (error === undefined) return undefined
  checker.keys(error, '`error`', ['type', 'status', 'title', 'detail', 'instance'])
  const kind = checker.required(error, '`error`', 'type')
  const code = checker.required(error, '`error`', 'status')
  const type = kind && compileText(kind, '`type`', checker)
  const status = code && checker.integer(code, '`status`')
  if (kind !== undefined && !fits(type, /^\S+$/)) {
    checker.fault('value_invalid', kind, '`type` must be a URI.')
  }
  const [title, detail, instance] = (['title', 'detail', 'instance'] as const).map((key) => {
    const value = entryOf(error, key)?.value
    const text = value && compileText(value, `\`${key}\``, checker)
    if (value !== undefined && key === 'instance' && !fits(text, POINTER)) {
      checker.fault('value_invalid', value, '`instance` must be a JSON pointer, such as /do/0/pay.')
    }
    return text
  })
  if (type === undefined || status === undefined) return undefined
  return {
    type,
    status,
    ...(title !== undefined && { title }),
    ...(detail !== undefined && { detail }),
    ...(instance !== undefined && { instance }),
  }
}

function compileText(value: Located, what: string, checker: Checker): Template | undefined {
  return checker.text(value, what) === undefined ? undefined : checker.template(value, SCOPES.task)
}

/** What only the run can tell, or already is a fault, fits. */
function fits(text: Template | undefined, pattern: RegExp): boolean {
  return text === undefined || !('literal' in text) || pattern.test(String(text.literal))
}

/** @throws FlowError (expression) where the value is no text */
function textOf(template: Template | undefined, name: string, running: Running): string | undefined {
  const value = template && running.evaluate(template, running.input)
  if (value === undefined || typeof value === 'string') return value
  throw new FlowError(ERRORS.expression, `\`${name}\` of an error must be a string.`)
}
