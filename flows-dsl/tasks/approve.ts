/** `approve`: waits for people to decide. An extension of ours; OWS 1.0 has no tasks for people. */

import { booleanBelow, type Checker, choiceBelow, integerUpTo, SCOPES } from '../checker.ts'
import { durationIn } from '../duration.ts'
import { ERRORS, FlowError, REJECTED } from '../errors.ts'
import type { Json, JsonObject, Template } from '../ir.ts'
import { clip, fieldOf, isObject } from '../json.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'
import { checkSchema } from '../schema/check.ts'
import { type Done, doneAs, type Move, type Running, type TaskType } from './task.ts'

export interface ApproveBody {
  /** What is to be decided, for people. */
  readonly title?: Template
  /** A schema (JSON Schema 2020-12) of what is filled in with a decision. Data, so nobody takes a part of it for a task. */
  readonly form?: { readonly literal: Json }
  /** Yields the names of those who may decide. */
  readonly approvers: Template
  /** How many must approve. */
  readonly quorum: number
  readonly deadlineMs?: number
  readonly onDeadline: (typeof ON_DEADLINE)[number]
  readonly onReject: (typeof ON_REJECT)[number]
  /** Whoever started the run may not decide. */
  readonly fourEyes: boolean
}

const KEYS = ['title', 'form', 'approvers', 'quorum', 'deadline', 'fourEyes', 'onDeadline', 'onReject']
const ON_DEADLINE = ['fault', 'reject', 'approve'] as const
const ON_REJECT = ['continue', 'fault'] as const
const QUORUM_MAX = 100

/** Compiles the key `approve` of a task. */
export function compileApprove(task: LocatedMap, checker: Checker): ApproveBody | undefined {
  const given = entryOf(task, 'approve')?.value
  const map = given && checker.map(given, '`approve`')
  if (map === undefined) return undefined
  checker.keys(map, '`approve`', KEYS)
  const approvers = compileApprovers(map, checker)
  const quorum = compileQuorum(map, checker)
  const deadline = compileDeadline(map, checker)
  const fourEyes = booleanBelow(map, 'fourEyes', true, checker)
  const onReject = choiceBelow(map, 'onReject', ON_REJECT, checker)
  const titled = compileTitle(map, checker)
  const form = compileForm(map, checker)
  refuseHopeless(map, approvers, quorum, checker)
  if (approvers === undefined || quorum === undefined || deadline === undefined) return undefined
  if (fourEyes === undefined || onReject === undefined || titled === undefined) return undefined
  return { ...titled, ...form, approvers, quorum, ...deadline, onReject, fourEyes }
}

function compileTitle(map: LocatedMap, checker: Checker): Pick<ApproveBody, 'title'> | undefined {
  const given = entryOf(map, 'title')?.value
  if (given === undefined) return {}
  const title =
    checker.text(given, '`title`') === undefined ? undefined : checker.template(given, SCOPES.task)
  return title && { title }
}

function compileForm(map: LocatedMap, checker: Checker): Pick<ApproveBody, 'form'> {
  const given = entryOf(map, 'form')?.value
  const form = given && checkSchema(given, checker)
  return form === undefined ? {} : { form: { literal: form } }
}

/** Names, of which each may be an expression, or one expression for all of them. */
function compileApprovers(map: LocatedMap, checker: Checker): Template | undefined {
  const given = checker.required(map, '`approve`', 'approvers')
  if (given === undefined) return undefined
  if (given.kind !== 'list') {
    return checker.text(given, '`approvers`') === undefined ? undefined : checker.filter(given, SCOPES.task)
  }
  if (given.items.length === 0) {
    return checker.fault('value_invalid', given, '`approvers` must name somebody.')
  }
  const isSound = given.items.map((item) => isName(item, checker)).every(Boolean)
  return isSound ? checker.template(given, SCOPES.task) : undefined
}

function isName(item: Located, checker: Checker): boolean {
  const name = checker.text(item, 'An approver')
  if (name?.trim() === '') checker.fault('value_invalid', item, 'An approver needs a name.')
  return name !== undefined && name.trim() !== ''
}

function compileQuorum(map: LocatedMap, checker: Checker): number | undefined {
  const given = entryOf(map, 'quorum')?.value
  return given === undefined ? 1 : integerUpTo(given, '`quorum`', QUORUM_MAX, checker)
}

/** `onDeadline` without a deadline would promise what never comes. */
function compileDeadline(
  map: LocatedMap,
  checker: Checker,
): Pick<ApproveBody, 'deadlineMs' | 'onDeadline'> | undefined {
  const given = entryOf(map, 'deadline')?.value
  const policy = entryOf(map, 'onDeadline')
  const onDeadline = choiceBelow(map, 'onDeadline', ON_DEADLINE, checker)
  if (given === undefined && policy !== undefined) {
    return checker.fault('missing_key', policy.at, '`onDeadline` needs the key `deadline` beside it.')
  }
  if (onDeadline === undefined || given === undefined) return onDeadline && { onDeadline }
  const deadlineMs = durationIn(given, '`deadline`', 1, checker)
  return deadlineMs === undefined ? undefined : { deadlineMs, onDeadline }
}

/** Where all names are written out, it shows whether they can be enough. */
function refuseHopeless(
  map: LocatedMap,
  approvers: Template | undefined,
  quorum: number | undefined,
  checker: Checker,
): void {
  const literal = approvers !== undefined && 'literal' in approvers ? approvers.literal : undefined
  if (!Array.isArray(literal) || quorum === undefined) return
  const count = new Set(literal).size
  if (count >= quorum) return
  const place = entryOf(map, 'quorum')?.value ?? map
  checker.fault('value_invalid', place, `${quorum} must approve, and only ${count} may.`)
}

const TITLE_BYTES_MAX = 1_024

export const approve: TaskType<ApproveBody> = {
  kind: 'approve',
  keys: ['approve'],
  isAnswered: true,
  compile(task, { checker }) {
    return compileApprove(task, checker)
  },
  ways() {
    return ['approved', 'rejected']
  },
  start(body, running) {
    return ask(body, running)
  },
  next(body, own, ended) {
    // Where the host itself answers what the task waits for, that is the output.
    const approval = own as unknown as Approval
    if (ended.key !== 'deadline') return { ...doneAs(ended), ...agreement(approval, ended.output) }
    if (body.onDeadline === 'fault') throw new FlowError(ERRORS.timeout, 'Nobody has decided in time.')
    return decided(body, approval, body.onDeadline === 'approve', { deadline_passed: true })
  },
  told(body, own, message, running) {
    return 'decision' in message
      ? hear(body, own as unknown as Approval, message.decision, running)
      : undefined
  },
  changed(body, _own, running) {
    return toDecide(body, running).own as unknown as Json
  },
  summary({ title, quorum }) {
    const text = title !== undefined && 'literal' in title ? ` ${title.literal}` : ''
    return `approve${text}, ${quorum} of those who may`
  },
}

/** @throws FlowError where those who may decide cannot be enough */
function ask(body: ApproveBody, running: Running): Move {
  const { own, details } = toDecide(body, running)
  const { deadlineMs } = body
  const limit =
    deadlineMs === undefined ? [] : [{ key: 'deadline', sleepMs: deadlineMs, summary: 'deadline' }]
  return {
    own: own as unknown as Json,
    begin: [{ key: 'decisions', await: 'approval', details }, ...limit],
  }
}

/** The approval without any decision, and the details that a host shows and binds decisions to. */
function toDecide(body: ApproveBody, running: Running): { own: Approval; details: JsonObject } {
  const names = running.evaluate(body.approvers, running.input)
  const { startedBy, changedBy } = running.run
  const authors = startedBy === undefined ? changedBy : [startedBy, ...changedBy]
  const approvers = approversOf(names, body.fourEyes ? authors : [])
  if (approvers === undefined) {
    throw new FlowError(ERRORS.expression, '`approvers` must yield a list of names.')
  }
  if (approvers.length < body.quorum) {
    const detail = `${body.quorum} must approve, and only ${approvers.length} may.`
    throw new FlowError(ERRORS.configuration, detail)
  }
  const { form, quorum } = body
  const title = titleOf(body, running)
  const shown = { approvers, quorum, ...title, ...(form !== undefined && { form: form.literal }) }
  return { own: { approvers, quorum, decisions: [] }, details: { ...shown, ...running.digest(title) } }
}

/** Who could have decided what was approved: a run whose data are changed later asks them again. */
function agreement({ approvers }: Approval, output: Json): Pick<Done, 'agreed'> {
  return isObject(output) && fieldOf(output, 'approved') === true ? { agreed: approvers } : {}
}

function titleOf({ title }: ApproveBody, running: Running): { title?: string } {
  if (title === undefined) return {}
  const text = running.evaluate(title, running.input)
  if (typeof text === 'string') return { title: clip(text, TITLE_BYTES_MAX) }
  throw new FlowError(ERRORS.expression, '`title` of an approval must be a string.')
}

/** One of those who may has decided: a text says why it does not count. */
function hear(body: ApproveBody, approval: Approval, given: JsonObject, running: Running): Move | string {
  const decision = decisionOf(given, running.nowMs())
  if (typeof decision === 'string') return decision
  const refusal = refusalOf(approval, decision.by) ?? formRefusal(body, decision, running)
  if (refusal !== undefined) return refusal
  approval.decisions.push(decision)
  const verdict = verdictOf(approval)
  return verdict === undefined ? { own: approval as unknown as Json } : decided(body, approval, verdict)
}

/** A rejection may leave the form as it is. What is wrong with a form is told to whoever has sent it: no flow faults. */
function formRefusal({ form }: ApproveBody, decision: Decision, running: Running): string | undefined {
  if (form === undefined) return decision.form === undefined ? undefined : 'There is no form to fill in.'
  if (decision.form === undefined && !decision.approved) return undefined
  try {
    running.checked(form.literal, decision.form ?? null, 'The form')
  } catch (error) {
    if (error instanceof FlowError) return error.message
    throw error
  }
  return undefined
}

/** @throws FlowError (rejected) where the definition wants a rejection to be an error */
function decided(
  { onReject }: ApproveBody,
  { decisions, approvers }: Approval,
  approved: boolean,
  more: JsonObject = {},
): Move {
  if (!approved && onReject === 'fault') {
    const by = decisions.filter((one) => !one.approved).map((one) => one.by)
    const detail = by.length === 0 ? 'Nobody has decided in time.' : `It was rejected by ${by.join(', ')}.`
    throw new FlowError(REJECTED, detail)
  }
  return {
    done: { approved, decisions: decisions as unknown as Json, ...more },
    took: approved ? 'approved' : 'rejected',
    ...(approved && { agreed: approvers }),
  }
}

const COMMENT_MAX = 4_096

/** What one of the approvers has said. `at` is an ISO 8601 time. */
export type Decision = {
  readonly by: string
  readonly approved: boolean
  readonly at: string
  readonly form?: Json
  readonly comment?: string
}

/** An approval that waits. All of it is plain JSON, and changed in place. */
export interface Approval {
  /** Those who may decide, each once. */
  readonly approvers: readonly string[]
  readonly quorum: number
  readonly decisions: Decision[]
}

/** Of the names, those who may decide; undefined where that is no list of names. */
export function approversOf(names: Json, except: readonly string[]): string[] | undefined {
  if (!Array.isArray(names)) return undefined
  const texts = names.filter((name) => typeof name === 'string' && name.trim() !== '')
  if (texts.length < names.length) return undefined
  return [...new Set(texts as string[])].filter((name) => !except.includes(name))
}

/** What was decided, or why that is no decision, in words for whoever has sent it. */
export function decisionOf(given: JsonObject, nowMs: number): Decision | string {
  const [by, approved, comment, form] = ['by', 'approved', 'comment', 'form'].map((key) =>
    fieldOf(given, key),
  )
  if (typeof by !== 'string' || by === '') return 'A decision needs `by`, the name of who decides.'
  if (typeof approved !== 'boolean') return 'A decision needs `approved`, true or false.'
  if (comment !== undefined && (typeof comment !== 'string' || comment.length > COMMENT_MAX))
    return `\`comment\` must be a string of at most ${COMMENT_MAX} characters.`
  const at = new Date(nowMs).toISOString()
  return { by, approved, at, ...(form !== undefined && { form }), ...(comment !== undefined && { comment }) }
}

/** Why somebody may not decide now, in words for him, or nothing. */
export function refusalOf({ approvers, decisions }: Approval, by: string): string | undefined {
  if (!approvers.includes(by)) return `\`${by}\` is none of those who may decide.`
  if (decisions.some((decision) => decision.by === by)) return `\`${by}\` has decided already.`
  return undefined
}

/** Whether it is approved, if that is sure by now: rejected as soon as the quorum cannot be reached any more. */
export function verdictOf({ approvers, quorum, decisions }: Approval): boolean | undefined {
  const approved = decisions.filter((decision) => decision.approved).length
  if (approved >= quorum) return true
  const open = approvers.length - decisions.length
  return approved + open < quorum ? false : undefined
}
