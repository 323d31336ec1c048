/** `approve`: waits for people to decide. Ours; OWS 1.0 has no tasks for people. */

import { type Checker, SCOPES } from '../checker.ts'
import { booleanBelow, choiceBelow, integerUpTo } from '../choice.ts'
import { durationIn } from '../duration.ts'
import { ERRORS, FlowError, REJECTED } from '../errors.ts'
import type { Json, JsonObject, Template } from '../ir.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'
import { type Approval, approversOf, decisionOf, refusalOf, verdictOf } from './approval.ts'
import { doneAs, type Move, type Running, type TaskType } from './task.ts'

export interface ApproveBody {
  /** What is to be decided, for people. */
  readonly title?: Template
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

export const approve: TaskType<ApproveBody> = {
  kind: 'approve',
  keys: ['approve'],
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
    if (ended.key !== 'deadline') return doneAs(ended)
    const approval = own as unknown as Approval
    if (body.onDeadline === 'fault') throw new FlowError(ERRORS.timeout, 'Nobody has decided in time.')
    return decided(body, approval, body.onDeadline === 'approve', { deadline_passed: true })
  },
  told(body, own, message, running) {
    return 'decision' in message
      ? hear(body, own as unknown as Approval, message.decision, running)
      : undefined
  },
  summary({ title, quorum }) {
    const text = title !== undefined && 'literal' in title ? ` ${title.literal}` : ''
    return `approve${text}, ${quorum} of those who may`
  },
}

/** @throws FlowError where those who may decide cannot be enough */
function ask(body: ApproveBody, running: Running): Move {
  const names = running.evaluate(body.approvers, running.input)
  const approvers = approversOf(names, body.fourEyes ? running.run.startedBy : undefined)
  if (approvers === undefined) {
    throw new FlowError(ERRORS.expression, '`approvers` must yield a list of names.')
  }
  if (approvers.length < body.quorum) {
    const detail = `${body.quorum} must approve, and only ${approvers.length} may.`
    throw new FlowError(ERRORS.configuration, detail)
  }
  const { deadlineMs, quorum } = body
  const title = titleOf(body, running)
  const details = { approvers, quorum, ...title }
  const limit =
    deadlineMs === undefined ? [] : [{ key: 'deadline', sleepMs: deadlineMs, summary: 'deadline' }]
  const own = { approvers, quorum, decisions: [] }
  return { own, begin: [{ key: 'decisions', await: 'approval', details }, ...limit] }
}

function titleOf({ title }: ApproveBody, running: Running): { title?: string } {
  if (title === undefined) return {}
  const text = running.evaluate(title, running.input)
  if (typeof text === 'string') return { title: text }
  throw new FlowError(ERRORS.expression, '`title` of an approval must be a string.')
}

/** One of those who may has decided: a text says why it does not count. */
function hear(body: ApproveBody, approval: Approval, given: JsonObject, running: Running): Move | string {
  const decision = decisionOf(given, running.nowMs())
  if (typeof decision === 'string') return decision
  const refusal = refusalOf(approval, decision.by)
  if (refusal !== undefined) return refusal
  approval.decisions.push(decision)
  const verdict = verdictOf(approval)
  return verdict === undefined ? { own: approval as unknown as Json } : decided(body, approval, verdict)
}

/** @throws FlowError (rejected) where the definition wants a rejection to be an error */
function decided(
  { onReject }: ApproveBody,
  { decisions }: Approval,
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
  }
}

/** Compiles the key `approve` of a task. */
function compileApprove(task: LocatedMap, checker: Checker): ApproveBody | undefined {
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
  refuseHopeless(map, approvers, quorum, checker)
  if (approvers === undefined || quorum === undefined || deadline === undefined) return undefined
  if (fourEyes === undefined || onReject === undefined || titled === undefined) return undefined
  return { ...titled, approvers, quorum, ...deadline, onReject, fourEyes }
}

function compileTitle(map: LocatedMap, checker: Checker): Pick<ApproveBody, 'title'> | undefined {
  const given = entryOf(map, 'title')?.value
  if (given === undefined) return {}
  const title =
    checker.text(given, '`title`') === undefined ? undefined : checker.template(given, SCOPES.task)
  return title && { title }
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
