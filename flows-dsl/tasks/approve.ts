/** `approve`: waits for people to decide. An extension of ours; OWS 1.0 has no tasks for people. */

import { type CompileContext, SCOPES } from '../compile/compile-context.ts'
import { durationIn, durationOf, dynamicDuration, optionalDuration } from '../compile/duration.ts'
import { entryOf, type MapNode, type SourceNode, valueAt } from '../compile/source-nodes.ts'
import { ERRORS, FlowError, REJECTED } from '../errors.ts'
import type { Duration, Json, JsonObject, Template } from '../ir.ts'
import { clip, fieldOf, isObject, omitUndefined } from '../json.ts'
import { checkSchema } from '../json-schema/check-schema.ts'
import {
  APPROVER_ROLES,
  approverOf,
  countApprovers,
  excludedBy,
  normalizeApprover,
  refusalOf,
  tooFew,
  type Voting,
  verdictOf,
} from './approvers.ts'
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
  /** The interval at which approvers are reminded. */
  readonly remindMs?: number
  /** Further approvers, and the time after which they may decide as well. */
  readonly escalate?: { readonly afterMs: number; readonly to: Template }
  readonly onReject: (typeof ON_REJECT)[number]
  /** Subjects that have started the execution or changed its data may not decide. */
  readonly fourEyes: boolean
}

/** A decision of one approver. `at` is an ISO 8601 time. */
export type Decision = {
  readonly by: string
  /** The approver that it counts for, if that is another name of the subject: an e-mail address, a role, a group. */
  readonly as?: string
  /** The subject that made the deciding account, key or client. */
  readonly created_by?: string
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
  /** When it ends, ISO 8601. */
  readonly deadline?: string
  readonly isEscalated?: boolean
}

const KEYS = [
  'title',
  'form',
  'approvers',
  'quorum',
  'deadline',
  'fourEyes',
  'onDeadline',
  'onReject',
  'remind',
  'escalate',
]
/** The child of the task that waits for decisions. */
export const AWAITED = 'decisions'
export const ON_DEADLINE = ['fault', 'reject', 'approve'] as const
export const ON_REJECT = ['continue', 'fault'] as const
export const QUORUM_MAX = 100
const COMMENT_MAX = 4_096
const TITLE_BYTES_MAX = 1_024
const SHOWN_BYTES_MAX = 100

export const approve: TaskType<ApproveBody> = {
  kind: 'approve',
  keys: ['approve'],
  returnsEffectResult: true,
  compile(task, { context }) {
    return compileApprove(task, context)
  },
  answeredBy() {
    return ['approval']
  },
  outcomes() {
    return ['approved', 'rejected']
  },
  start(body, task) {
    const { escalate } = body
    const evaluate = (template: Template) => task.evaluate(template, task.input)
    const deadlineMs = body.deadlineMs && durationOf(body.deadlineMs, '`deadline`', 1, evaluate)
    const deadline =
      deadlineMs === undefined ? {} : { deadline: new Date(task.nowMs() + deadlineMs).toISOString() }
    const { taskState, details } = request(body, task, deadline)
    return {
      taskState: taskState as unknown as Json,
      start: [
        { key: AWAITED, await: 'approval', details },
        ...(deadlineMs === undefined ? [] : [{ key: 'deadline', sleepMs: deadlineMs, summary: 'deadline' }]),
        ...(escalate === undefined
          ? []
          : [{ key: 'escalation', sleepMs: escalate.afterMs, summary: 'escalation' }]),
      ],
    }
  },
  onChildEnd(body, taskState, ended, task) {
    const approval = taskState as unknown as Approval
    if (ended.key === 'escalation') {
      const { taskState: escalated, details } = request(body, task, { ...approval, isEscalated: true })
      return {
        taskState: { ...escalated, decisions: approval.decisions } as unknown as Json,
        cancel: [AWAITED],
        start: [{ key: AWAITED, await: 'approval', details }],
      }
    }
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
    const approval = taskState as unknown as Approval
    const rules = { excluded: excludedFrom(body, task), nowMs: task.nowMs(), validate: task.validate }
    const decision = addDecision(body, approval, message.decision, rules)
    if (typeof decision === 'string') return decision
    const verdict = verdictOf(approval)
    return verdict === undefined ? { taskState } : decide(body, approval, verdict)
  },
  onDataChanged(body, taskState, task) {
    const { taskState: changed, details } = request(body, task, taskState as unknown as Approval)
    return { taskState: changed as unknown as Json, details }
  },
  summary({ title, quorum }) {
    const text = title !== undefined && 'literal' in title ? ` ${title.literal}` : ''
    return `approve${text}, ${quorum} ${quorum === 1 ? 'approval' : 'approvals'} needed`
  },
}

function compileApprove(task: MapNode, context: CompileContext): ApproveBody | undefined {
  const map = context.optionalMap(task, 'approve', KEYS)
  if (map === undefined) return undefined
  const approvers = compileApprovers(map, context)
  const quorum = compileQuorum(map, approvers, context)
  const deadline = compileDeadline(map, context)
  const remindMs = optionalDuration(context.optionalMap(map, 'remind', ['every']), 'every', 1, context)
  const escalate = compileEscalation(map, context)
  const fourEyes = context.boolean(map, 'fourEyes', true)
  const onReject = context.choice(map, 'onReject', ON_REJECT)
  const node = valueAt(map, 'title')
  const title = node && context.textTemplate(node, '`title`')
  const form = compileForm(map, context)
  if (approvers === undefined || quorum === undefined || deadline === undefined) return undefined
  if (fourEyes === undefined || onReject === undefined) return undefined
  const optional = omitUndefined({ title, form, remindMs, escalate })
  return { ...optional, approvers, quorum, ...deadline, onReject, fourEyes }
}

function compileForm(map: MapNode, context: CompileContext): ApproveBody['form'] {
  const node = valueAt(map, 'form')
  const schema = node && checkSchema(node, context)
  return schema === undefined ? undefined : { literal: schema }
}

/** Further approvers, and the time after which they may decide. */
function compileEscalation(map: MapNode, context: CompileContext): ApproveBody['escalate'] {
  const escalate = context.optionalMap(map, 'escalate', ['after', 'to'])
  if (escalate === undefined) return undefined
  const after = context.required(escalate, '`escalate`', 'after')
  const afterMs = after && durationIn(after, '`after`', 1, context)
  const to = compileNames(escalate, 'to', context)
  return afterMs === undefined || to === undefined ? undefined : { afterMs, to }
}

const compileApprovers = (map: MapNode, context: CompileContext) => compileNames(map, 'approvers', context)

/** A list of names, each of which may be an expression, or one expression that yields the list. */
function compileNames(map: MapNode, key: 'approvers' | 'to', context: CompileContext): Template | undefined {
  const node = context.required(map, key === 'to' ? '`escalate`' : '`approve`', key)
  if (node === undefined) return undefined
  if (node.kind !== 'list') {
    if (context.text(node, `\`${key}\``) === undefined) return undefined
    const yielded = context.filter(node, SCOPES.task)
    if (yielded === undefined || !('expression' in yielded) || yielded.expression.op !== 'literal') {
      context.yields(node, `\`${key}\``, yielded, ['array'])
      return yielded
    }
    const message = `\`${key}\` must be a list of names, or an expression that yields one.`
    return context.report('value_invalid', node, message, `Write [ada], or .${key}.`)
  }
  if (node.items.length === 0) {
    return context.report('value_invalid', node, `\`${key}\` must not be empty.`)
  }
  const isValid = node.items.map((item) => checkName(item, context)).every(Boolean)
  return isValid ? context.template(node, SCOPES.task) : undefined
}

function checkName(item: SourceNode, context: CompileContext): boolean {
  const name = context.text(item, 'An approver')
  if (name?.trim() === '') context.report('value_invalid', item, 'An approver needs a name.')
  if (context.isLikeExpression(item, SCOPES.task)) {
    const message = `\`${name}\` is taken as a name: in a list, expressions are written in \${ }.`
    return context.report('value_invalid', item, message, `Write '\${ ${name} }'.`) === null
  }
  const [, role] = /^role:([^$]*)$/.exec(name ?? '') ?? []
  if (role !== undefined && !(APPROVER_ROLES as readonly string[]).includes(role)) {
    const message = `There is no role \`${role}\`. Known here: ${APPROVER_ROLES.join(', ')}.`
    return context.report('value_invalid', item, message) === null
  }
  return name !== undefined && name.trim() !== ''
}

/** By default 1. If all approvers are literals, there must be enough of them. */
function compileQuorum(
  map: MapNode,
  approvers: Template | undefined,
  context: CompileContext,
): number | undefined {
  const node = valueAt(map, 'quorum')
  const quorum = node === undefined ? 1 : context.integer(node, '`quorum`', 1, QUORUM_MAX)
  const names = approvers !== undefined && 'literal' in approvers ? approvers.literal : undefined
  if (!Array.isArray(names) || quorum === undefined) return quorum
  const count = countApprovers(names.map(String))
  if (count >= quorum) return quorum
  return context.report('value_invalid', node ?? map, `${quorum} must approve, and only ${count} may.`)
}

/** `onDeadline` has no effect without `deadline`, so that is reported. */
function compileDeadline(
  map: MapNode,
  context: CompileContext,
): Pick<ApproveBody, 'deadlineMs' | 'onDeadline'> | undefined {
  const node = valueAt(map, 'deadline')
  const policy = entryOf(map, 'onDeadline')
  const onDeadline = context.choice(map, 'onDeadline', ON_DEADLINE)
  if (node === undefined && policy !== undefined) {
    return context.report('missing_key', policy.at, '`onDeadline` requires the key `deadline`.')
  }
  if (onDeadline === undefined || node === undefined) return onDeadline && { onDeadline }
  const deadlineMs = dynamicDuration(node, '`deadline`', 1, SCOPES.task, context)
  return deadlineMs === undefined ? undefined : { deadlineMs, onDeadline }
}

/**
 * The approval without decisions, and the details that a host shows and binds decisions to.
 * @param before what stays of an approval that was asked for earlier
 * @throws FlowError if `approvers` or `title` has the wrong type, or there are fewer approvers than the quorum
 */
function request(
  body: ApproveBody,
  task: TaskContext,
  { deadline, isEscalated = false }: Pick<Approval, 'deadline' | 'isEscalated'>,
): { taskState: Approval; details: JsonObject } {
  const { form, quorum, remindMs, escalate } = body
  const excluded = excludedFrom(body, task)
  const names = namesOf(task.evaluate(body.approvers, task.input), 'approvers')
  if (isEscalated && escalate !== undefined)
    names.push(...namesOf(task.evaluate(escalate.to, task.input), 'escalate.to'))
  const refused = tooFew(quorum, names, excluded)
  if (refused !== undefined) throw new FlowError(ERRORS.configuration, refused)
  const approvers = [...new Set(names)].filter((name) => !excluded.has(name))
  const title = titleOf(body, task)
  const kept = { approvers, quorum, ...omitUndefined({ deadline }) }
  const details = { ...kept, ...title, ...(form !== undefined && { form: form.literal }) }
  return {
    taskState: { ...kept, decisions: [], ...(isEscalated && { isEscalated }) },
    details: {
      ...details,
      data: task.input,
      ...(excluded.size > 0 && { excluded: [...excluded.keys()] }),
      ...omitUndefined({ remindMs }),
      ...task.digest(title),
    },
  }
}

const excludedFrom = ({ fourEyes }: ApproveBody, { run }: TaskContext): ReadonlyMap<string, string> =>
  fourEyes ? excludedBy(run) : new Map()

function namesOf(names: Json, key: string): string[] {
  if (!Array.isArray(names) || !names.every((name) => typeof name === 'string' && name.trim() !== '')) {
    const excerpt = clip(JSON.stringify(names), SHOWN_BYTES_MAX)
    throw new FlowError(
      ERRORS.expression,
      `\`${key}\` yields ${excerpt}, which is not a list of names, such as ["ada"].`,
    )
  }
  return (names as string[]).map(normalizeApprover)
}

function titleOf({ title }: ApproveBody, task: TaskContext): { title?: string } {
  if (title === undefined) return {}
  const text = task.evaluate(title, task.input)
  if (typeof text === 'string') return { title: clip(text, TITLE_BYTES_MAX) }
  throw new FlowError(ERRORS.expression, '`title` of an approval must be a string.')
}

/** The rules that decisions of an approval are checked by. */
export interface DecisionRules {
  /** The subjects that may not decide, each with the reason. */
  readonly excluded: ReadonlyMap<string, string>
  readonly nowMs: number
  readonly validate: TaskContext['validate']
}

/**
 * Adds a decision to an approval, whether it waits or was reopened.
 * @returns the decision, or the reason why it does not count, for its sender
 */
export function addDecision(
  { form }: ApproveBody,
  approval: Voting & { readonly decisions: Decision[] },
  message: JsonObject,
  { excluded, nowMs, validate }: DecisionRules,
): Decision | string {
  const decision = decisionOf(message, approval, nowMs)
  if (typeof decision === 'string') return decision
  const refusal = refusalOf(approval, message, excluded) ?? formError(form, decision, validate)
  if (refusal !== undefined) return refusal
  approval.decisions.push(decision)
  return decision
}

/** A rejection may omit the form. An invalid form is reported to the sender and does not fault the flow. */
function formError(
  form: ApproveBody['form'],
  decision: Decision,
  validate: TaskContext['validate'],
): string | undefined {
  if (form === undefined) return decision.form === undefined ? undefined : 'The approval has no form.'
  if (decision.form === undefined && !decision.approved) return undefined
  try {
    validate(form.literal, decision.form ?? {}, 'The form')
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
    const detail =
      by.length === 0 ? 'No decision was made in time.' : `The approval was rejected by ${by.join(', ')}.`
    throw new FlowError(REJECTED, detail)
  }
  return {
    done: { approved, decisions: decisions as unknown as Json, ...more },
    took: approved ? 'approved' : 'rejected',
    ...(approved && { approvers: approvers }),
  }
}

/** The decision in a message, or why it is invalid, in words for the sender. */
export function decisionOf(
  message: JsonObject,
  approval: Pick<Approval, 'approvers'>,
  nowMs: number,
): Decision | string {
  const [by, approved, comment, form] = ['by', 'approved', 'comment', 'form'].map((key) =>
    fieldOf(message, key),
  )
  if (typeof by !== 'string' || by === '') return 'A decision needs `by`, the name of the approver.'
  if (typeof approved !== 'boolean') return 'A decision needs `approved`, true or false.'
  if (comment !== undefined && (typeof comment !== 'string' || comment.length > COMMENT_MAX))
    return `\`comment\` must be a string of at most ${COMMENT_MAX} characters.`
  const as = approverOf(approval, message)
  const madeBy = fieldOf(message, 'created_by')
  return {
    by,
    ...(as !== undefined && as !== normalizeApprover(by) && { as }),
    ...(typeof madeBy === 'string' && { created_by: madeBy }),
    approved,
    at: new Date(nowMs).toISOString(),
    ...omitUndefined({ form, comment }),
  }
}
