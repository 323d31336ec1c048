/** `wait`: lets time pass (OWS 1.0 "Wait"), or waits until a point in time (an extension of ours). */

import { type CompileContext, SCOPES } from '../compile/compile-context.ts'
import { DURATION_MS_MAX, durationOf, durationText, dynamicDuration } from '../compile/duration.ts'
import { entryOf, type SourceNode, valueAt } from '../compile/source-nodes.ts'
import { ERRORS, FlowError } from '../errors.ts'
import type { Duration, Json, Template } from '../ir.ts'
import { clip } from '../json.ts'
import type { TaskContext, TaskType } from './task.ts'

type WaitBody = { readonly durationMs: Duration } | { readonly until: Template }

/** RFC 3339: a date and a time with its offset. */
export const TIME = '^\\d{4}-\\d\\d-\\d\\d[Tt]\\d\\d:\\d\\d:\\d\\d(?:\\.\\d{1,9})?(?:[Zz]|[+-]\\d\\d:\\d\\d)$'

export const wait: TaskType<WaitBody> = {
  kind: 'wait',
  keys: ['wait'],
  compile(task, { context }) {
    const node = valueAt(task, 'wait')
    if (node?.kind === 'map' && entryOf(node, 'until') !== undefined) {
      context.keys(node, '`wait` until a time', ['until'])
      return compileUntil(valueAt(node, 'until') ?? node, context)
    }
    const durationMs = node && dynamicDuration(node, 'A wait', 1, SCOPES.task, context)
    return durationMs === undefined ? undefined : { durationMs }
  },
  start(body, task) {
    const { input } = task
    if ('until' in body) {
      const untilMs = timeOf(task.evaluate(body.until, input))
      const sleepMs = untilMs - task.nowMs()
      if (sleepMs <= 0) return { done: input }
      if (sleepMs > DURATION_MS_MAX)
        throw new FlowError(ERRORS.expression, '`wait.until` is more than 365 days ahead.')
      const summary = `wait until ${new Date(untilMs).toISOString()}`
      return { taskState: null, start: [{ key: 'wait', sleepMs, summary }] }
    }
    const { durationMs } = body
    const sleepMs = durationOf(durationMs, '`wait`', 1, (template) => task.evaluate(template, input))
    const summary = typeof durationMs === 'number' ? {} : { summary: `wait ${durationText(sleepMs)}` }
    return { taskState: null, start: [{ key: 'wait', sleepMs, ...summary }] }
  },
  onChildEnd(_body, _own, _ended, { input }: TaskContext) {
    return { done: input }
  },
  summary(body) {
    if ('until' in body)
      return 'literal' in body.until ? `wait until ${body.until.literal}` : 'wait until a time'
    const { durationMs } = body
    return typeof durationMs === 'number' ? `wait ${durationText(durationMs)}` : 'wait'
  },
}

function compileUntil(node: SourceNode, context: CompileContext): WaitBody | undefined {
  const until = context.textTemplate(node, '`until`')
  if (until === undefined || !('literal' in until) || parseTime(until.literal) !== undefined)
    return until && { until }
  const hint =
    'Write 2026-12-24T18:00:00Z, 2026-12-24T18:00:00+01:00, or an expression that yields such a text.'
  return context.report(
    'value_invalid',
    node,
    '`until` must be a date and time with an offset (RFC 3339).',
    hint,
  )
}

function parseTime(value: Json): number | undefined {
  if (typeof value !== 'string' || !new RegExp(TIME).test(value)) return undefined
  const ms = Date.parse(value)
  return Number.isFinite(ms) ? ms : undefined
}

function timeOf(value: Json): number {
  const ms = parseTime(value)
  if (ms !== undefined) return ms
  const excerpt = clip(JSON.stringify(value), 100)
  const detail = `\`wait.until\` yields ${excerpt}, which is not a date and time with an offset, such as 2026-12-24T18:00:00Z.`
  throw new FlowError(ERRORS.expression, detail)
}
