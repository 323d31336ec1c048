/** What an `approve` is, and how it is compiled. */

import { type Checker, SCOPES } from '../checker.ts'
import { booleanBelow, choiceBelow, integerUpTo } from '../choice.ts'
import { durationIn } from '../duration.ts'
import type { Json, Template } from '../ir.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'
import { checkSchema } from '../schema/check.ts'

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
