/** `approve`: waits for people to decide. An extension of ours; OWS 1.0 has no tasks for people. */

import { type CompileContext, SCOPES } from '../compile/compile-context.ts'
import { durationOf, dynamicDuration } from '../compile/duration.ts'
import { entryOf, type MapNode, type SourceNode, valueAt } from '../compile/source-nodes.ts'
import { ERRORS, FlowError, REJECTED } from '../errors.ts'
import type { Duration, Json, JsonObject, Template } from '../ir.ts'
import { clip, fieldOf, isObject, omitUndefined } from '../json.ts'
import { checkSchema } from '../json-schema/check-schema.ts'
import { resultOf, type TaskContext, type TaskType, type Transition } from './task.ts'

export interface ApproveBody {
  /** The question, for people. */
  readonly title?: Template
  /** JSON Schema 2020-12 of the form that a decision fills in. */
  readonly form?: { readonly literal: Json }
  /** Yields the names of the approvers. */
  readonly approvers: Template
  /** The number of approvals that are required. */
  readonly quorum: number
  readonly deadlineMs?: Duration
  readonly onDeadline: (typeof ON_DEADLINE)[number]
  readonly onReject: (typeof ON_REJECT)[number]
  /** The subject that started the execution may not decide. */
  readonly fourEyes: boolean
}

/** A decision of one approver. `at` is an ISO 8601 time. */
export type Decision = {
  readonly by: string
  readonly approved: boolean
  readonly at: string
  readonly form?: Json
  readonly comment?: string
}

/** State of a waiting approval. Plain JSON, changed in place. */
interface Approval {
  /** Without duplicates. */
  readonly approvers: readonly string[]
  readonly quorum: number
  readonly decisions: Decision[]
}

const KEYS = ['title', 'form', 'approvers', 'quorum', 'deadline', 'fourEyes', 'onDeadline', 'onReject']
export const ON_DEADLINE = ['fault', 'reject', 'approve'] as const
export const ON_REJECT = ['continue', 'fault'] as const
export const QUORUM_MAX = 100
const COMMENT_MAX = 4_096
const TITLE_BYTES_MAX = 1_024

export const approve: TaskType<ApproveBody> = {
  kind: 'approve',
  keys: ['approve'],
  returnsEffectResult: true,
  compile(task, { context }) {
    return compileApprove(task, context)
  },
  outcomes() {
    return ['approved', 'rejected']
  },
  start(body, task) {
    const { taskState, details } = request(body, task)
    const { deadlineMs } = body
    const evaluate = (template: Template) => task.evaluate(template, task.input)
    const sleepMs = deadlineMs && durationOf(deadlineMs, '`deadline`', 1, evaluate)
    const deadline = sleepMs === undefined ? [] : [{ key: 'deadline', sleepMs, summary: 'deadline' }]
    return {
      taskState: taskState as unknown as Json,
      start: [{ key: 'decisions', await: 'approval', details }, ...deadline],
    }
  },
  onChildEnd(body, taskState, ended) {
    const approval = taskState as unknown as Approval
    if (ended.key !== 'deadline') {
      // The host itself has completed the wait: its result is the output.
      const { output } = ended
      const isApproved = isObject(output) && fieldOf(output, 'approved') === true
      return { ...resultOf(ended), ...(isApproved && { approvers: approval.approvers }) }
    }
    if (body.onDeadline === 'fault') throw new FlowError(ERRORS.timeout, 'No decision was made in time.')
    return decide(body, approval, body.onDeadline === 'approve', { deadline_passed: true })
  },
  onMessage(body, taskState, message, task) {
    if (!('decision' in message)) return undefined
    return addDecision(body, taskState as unknown as Approval, message.decision, task)
  },
  onDataChanged(body, _taskState, task) {
    return request(body, task).taskState as unknown as Json
  },
  summary({ title, quorum }) {
    const text = title !== undefined && 'literal' in title ? ` ${title.literal}` : ''
    return `approve${text}, ${quorum} of those who may`
  },
}

function compileApprove(task: MapNode, context: CompileContext): ApproveBody | undefined {
  const map = context.optionalMap(task, 'approve', KEYS)
  if (map === undefined) return undefined
  const approvers = compileApprovers(map, context)
  const quorum = compileQuorum(map, approvers, context)
  const deadline = compileDeadline(map, context)
  const fourEyes = context.boolean(map, 'fourEyes', true)
  const onReject = context.choice(map, 'onReject', ON_REJECT)
  const given = valueAt(map, 'title')
  const title = given && context.textTemplate(given, '`title`')
  const form = compileForm(map, context)
  if (approvers === undefined || quorum === undefined || deadline === undefined) return undefined
  if (fourEyes === undefined || onReject === undefined) return undefined
  return { ...omitUndefined({ title, form }), approvers, quorum, ...deadline, onReject, fourEyes }
}

function compileForm(map: MapNode, context: CompileContext): ApproveBody['form'] {
  const given = valueAt(map, 'form')
  const schema = given && checkSchema(given, context)
  return schema === undefined ? undefined : { literal: schema }
}

/** A list of names, each of which may be an expression, or one expression that yields the list. */
function compileApprovers(map: MapNode, context: CompileContext): Template | undefined {
  const given = context.required(map, '`approve`', 'approvers')
  if (given === undefined) return undefined
  if (given.kind !== 'list') {
    if (context.text(given, '`approvers`') === undefined) return undefined
    const yielded = context.filter(given, SCOPES.task)
    if (yielded === undefined || !('expression' in yielded) || yielded.expression.op !== 'literal')
      return yielded
    const message = '`approvers` must be a list of names, or an expression that yields one.'
    return context.report('value_invalid', given, message, 'Write [ada], or .approvers.')
  }
  if (given.items.length === 0) {
    return context.report('value_invalid', given, '`approvers` must not be empty.')
  }
  const isValid = given.items.map((item) => checkName(item, context)).every(Boolean)
  return isValid ? context.template(given, SCOPES.task) : undefined
}

function checkName(item: SourceNode, context: CompileContext): boolean {
  const name = context.text(item, 'An approver')
  if (name?.trim() === '') context.report('value_invalid', item, 'An approver needs a name.')
  if (context.isLikeExpression(item, SCOPES.task)) {
    const message = `\`${name}\` is taken as a name: in a list, expressions are written in \${ }.`
    return context.report('value_invalid', item, message, `Write '\${ ${name} }'.`) === null
  }
  return name !== undefined && name.trim() !== ''
}

/** By default 1. If all approvers are literals, there must be enough of them. */
function compileQuorum(
  map: MapNode,
  approvers: Template | undefined,
  context: CompileContext,
): number | undefined {
  const given = valueAt(map, 'quorum')
  const quorum = given === undefined ? 1 : context.integer(given, '`quorum`', 1, QUORUM_MAX)
  const names = approvers !== undefined && 'literal' in approvers ? approvers.literal : undefined
  if (!Array.isArray(names) || quorum === undefined) return quorum
  const count = new Set(names).size
  if (count >= quorum) return quorum
  return context.report('value_invalid', given ?? map, `${quorum} must approve, and only ${count} may.`)
}

/** `onDeadline` has no effect without `deadline`, so that is reported. */
function compileDeadline(
  map: MapNode,
  context: CompileContext,
): Pick<ApproveBody, 'deadlineMs' | 'onDeadline'> | undefined {
  const given = valueAt(map, 'deadline')
  const policy = entryOf(map, 'onDeadline')
  const onDeadline = context.choice(map, 'onDeadline', ON_DEADLINE)
  if (given === undefined && policy !== undefined) {
    return context.report('missing_key', policy.at, '`onDeadline` requires the key `deadline`.')
  }
  if (onDeadline === undefined || given === undefined) return onDeadline && { onDeadline }
  const deadlineMs = dynamicDuration(given, '`deadline`', 1, SCOPES.task, context)
  return deadlineMs === undefined ? undefined : { deadlineMs, onDeadline }
}

/**
 * The approval without decisions, and the details that a host shows and binds decisions to.
 * @throws FlowError if `approvers` or `title` has the wrong type, or there are fewer approvers than the quorum
 */
function request(body: ApproveBody, task: TaskContext): { taskState: Approval; details: JsonObject } {
  const { form, quorum } = body
  const { startedBy, changedBy } = task.run
  const authors = startedBy === undefined ? changedBy : [startedBy, ...changedBy]
  const approvers = approversOf(task.evaluate(body.approvers, task.input), body.fourEyes ? authors : [])
  if (approvers.length < quorum) {
    const detail = `${quorum} must approve, and only ${approvers.length} may.`
    throw new FlowError(ERRORS.configuration, detail)
  }
  const title = titleOf(body, task)
  const shown = { approvers, quorum, ...title, ...(form !== undefined && { form: form.literal }) }
  return { taskState: { approvers, quorum, decisions: [] }, details: { ...shown, ...task.digest(title) } }
}

function approversOf(names: Json, except: readonly string[]): string[] {
  if (!Array.isArray(names) || !names.every((name) => typeof name === 'string' && name.trim() !== '')) {
    throw new FlowError(ERRORS.expression, '`approvers` must yield a list of names.')
  }
  return [...new Set(names as string[])].filter((name) => !except.includes(name))
}

function titleOf({ title }: ApproveBody, task: TaskContext): { title?: string } {
  if (title === undefined) return {}
  const text = task.evaluate(title, task.input)
  if (typeof text === 'string') return { title: clip(text, TITLE_BYTES_MAX) }
  throw new FlowError(ERRORS.expression, '`title` of an approval must be a string.')
}

/** Adds a decision. A returned text says why it does not count. */
function addDecision(
  body: ApproveBody,
  approval: Approval,
  given: JsonObject,
  task: TaskContext,
): Transition | string {
  const decision = decisionOf(given, task.nowMs())
  if (typeof decision === 'string') return decision
  const refusal = refusalOf(approval, decision.by) ?? formError(body, decision, task)
  if (refusal !== undefined) return refusal
  approval.decisions.push(decision)
  const verdict = verdictOf(approval)
  return verdict === undefined ? { taskState: approval as unknown as Json } : decide(body, approval, verdict)
}

/** A rejection may omit the form. An invalid form is reported to the sender and does not fault the flow. */
function formError({ form }: ApproveBody, decision: Decision, task: TaskContext): string | undefined {
  if (form === undefined) return decision.form === undefined ? undefined : 'There is no form to fill in.'
  if (decision.form === undefined && !decision.approved) return undefined
  try {
    task.validate(form.literal, decision.form ?? {}, 'The form')
  } catch (error) {
    if (error instanceof FlowError) return error.message
    throw error
  }
  return undefined
}

/** @throws FlowError (rejected) for a rejection with `onReject: fault` */
function decide(
  { onReject }: ApproveBody,
  { decisions, approvers }: Approval,
  approved: boolean,
  more: JsonObject = {},
): Transition {
  if (!approved && onReject === 'fault') {
    const by = decisions.filter((one) => !one.approved).map((one) => one.by)
    const detail = by.length === 0 ? 'No decision was made in time.' : `It was rejected by ${by.join(', ')}.`
    throw new FlowError(REJECTED, detail)
  }
  return {
    done: { approved, decisions: decisions as unknown as Json, ...more },
    took: approved ? 'approved' : 'rejected',
    ...(approved && { approvers: approvers }),
  }
}

/** The decision in a message, or why it is invalid, in words for the sender. */
export function decisionOf(given: JsonObject, nowMs: number): Decision | string {
  const [by, approved, comment, form] = ['by', 'approved', 'comment', 'form'].map((key) =>
    fieldOf(given, key),
  )
  if (typeof by !== 'string' || by === '') return 'A decision needs `by`, the name of the approver.'
  if (typeof approved !== 'boolean') return 'A decision needs `approved`, true or false.'
  if (comment !== undefined && (typeof comment !== 'string' || comment.length > COMMENT_MAX))
    return `\`comment\` must be a string of at most ${COMMENT_MAX} characters.`
  return { by, approved, at: new Date(nowMs).toISOString(), ...omitUndefined({ form, comment }) }
}

/** The reason why a subject may not decide now, for the sender; undefined if it may. */
export function refusalOf({ approvers, decisions }: Approval, by: string): string | undefined {
  if (!approvers.includes(by)) return `\`${by}\` is none of those who may decide.`
  if (decisions.some((decision) => decision.by === by)) return `\`${by}\` has decided already.`
  return undefined
}

/** True if approved, false as soon as the quorum cannot be reached, undefined while it is open. */
export function verdictOf({ approvers, quorum, decisions }: Approval): boolean | undefined {
  const approved = decisions.filter((decision) => decision.approved).length
  if (approved >= quorum) return true
  const open = approvers.length - decisions.length
  return approved + open < quorum ? false : undefined
}
