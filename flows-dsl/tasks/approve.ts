/** `approve`: waits for people to decide. Ours; OWS 1.0 has no tasks for people. */

import { ERRORS, FlowError, REJECTED } from '../errors.ts'
import type { Json, JsonObject } from '../ir.ts'
import { clip, fieldOf, isObject } from '../json.ts'
import { type Approval, approversOf, type Decision, decisionOf, refusalOf, verdictOf } from './approval.ts'
import { type ApproveBody, compileApprove } from './approve-body.ts'
import { type Done, doneAs, type Move, type Running, type TaskType } from './task.ts'

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
