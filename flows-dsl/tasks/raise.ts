/** `raise`: faults with an error (OWS 1.0 "Raise", "Error"). */

import type { CompileContext } from '../compile/compile-context.ts'
import { type Location, type SourceNode, valueAt } from '../compile/source-nodes.ts'
import { ERRORS, FlowError, isShortType, SHORT_TYPES, standardError } from '../errors.ts'
import type { Template } from '../ir.ts'
import { omitUndefined } from '../json.ts'
import type { TaskContext, TaskType } from './task.ts'

interface RaiseBody {
  readonly type: Template
  readonly status: number
  readonly title?: Template
  readonly detail?: Template
  readonly instance?: Template
}

export const POINTER = '^(?:/(?:[^~/]|~[01])*)+$'

export const raise: TaskType<RaiseBody> = {
  kind: 'raise',
  keys: ['raise'],
  compile(task, { context }) {
    const map = context.optionalMap(task, 'raise', ['error'])
    if (map === undefined) return undefined
    const source = context.required(map, '`raise`', 'error')
    if (source?.kind !== 'scalar' || typeof source.value !== 'string')
      return source && compileError(source, context)
    return context.components.resolve('errors', source, ({ value }) => compileError(value, context))
  },
  start(body, task) {
    const typeText = textOf(body.type, 'type', task) ?? ''
    const type = (isShortType(typeText) ? standardError(typeText)?.type : undefined) ?? typeText
    const title = textOf(body.title, 'title', task) ?? standardError(type)?.title ?? 'Error'
    const detail = textOf(body.detail, 'detail', task) ?? ''
    const instance = textOf(body.instance, 'instance', task)
    throw new FlowError({ type, status: body.status, title }, detail, instance)
  },
  summary({ type, status, title }) {
    const texts = [title, type].map((one) => (one && 'literal' in one ? one.literal : undefined))
    return `raise ${[status, texts.find((one) => one !== undefined)].join(' ').trim()}`
  },
}

/** Compiles an error in `raise` or under `use.errors`. */
export function compileError(node: SourceNode, context: CompileContext): RaiseBody | undefined {
  const error = context.map(node, '`error`', ['type', 'status', 'title', 'detail', 'instance'])
  if (error === undefined) return undefined
  const uri = context.required(error, '`error`', 'type')
  const code = context.required(error, '`error`', 'status')
  const type = uri && context.textTemplate(uri, '`type`')
  const status = code && context.integer(code, '`status`')
  if (uri !== undefined && !matchesPattern(type, /^\S+$/)) {
    context.report('value_invalid', uri, '`type` must be a URI.')
  } else if (uri !== undefined && type !== undefined && 'literal' in type) {
    errorType(uri, String(type.literal), context)
  }
  const [title, detail, instance] = ['title', 'detail', 'instance'].map((key) => {
    const value = valueAt(error, key)
    const text = value && context.textTemplate(value, `\`${key}\``)
    if (value !== undefined && key === 'instance' && !matchesPattern(text, new RegExp(POINTER))) {
      context.report('value_invalid', value, '`instance` must be a JSON pointer, such as /do/0/pay.')
    }
    return text
  })
  if (type === undefined || status === undefined) return undefined
  return { type, status, ...omitUndefined({ title, detail, instance }) }
}

/** The type of an error: a URI, or the short name of a standard type. */
export function errorType(at: Location, type: string, context: CompileContext): string | undefined {
  if (!isShortType(type) || standardError(type) !== undefined) return type
  const message = `There is no standard error \`${type}\`; other types are URIs.`
  return context.reportUnknown('value_invalid', at, message, type, SHORT_TYPES)
}

/** Also true for an expression, whose value only the execution knows, and for text that has a diagnostic already. */
function matchesPattern(text: Template | undefined, pattern: RegExp): boolean {
  return text === undefined || !('literal' in text) || pattern.test(String(text.literal))
}

/** @throws FlowError (expression) if the value is not a string */
function textOf(template: Template | undefined, name: string, task: TaskContext): string | undefined {
  const value = template && task.evaluate(template, task.input)
  if (value === undefined || typeof value === 'string') return value
  throw new FlowError(ERRORS.expression, `\`${name}\` of an error must be a string.`)
}
