/** Approvers of an `approve` task: how they are named, who is excluded, and what their decisions amount to. */

import type { JsonObject } from '../ir.ts'
import { fieldOf } from '../json.ts'
import type { TaskContext } from './task.ts'

/** Roles that an approver may name, as `role:workspace_admin`. */
export const APPROVER_ROLES = ['operator', 'tenant_admin', 'workspace_admin', 'service'] as const

const SHARED = /^(role|group):/
const EMAIL = /^[^\s@:|]+@[^\s@]+$/

/** True if the name stands for any number of people: `role:…` or `group:…`. */
const isShared = (name: string): boolean => SHARED.test(name)

/** E-mail addresses are compared without regard to case. */
export const normalizeApprover = (name: string): string => (EMAIL.test(name) ? name.toLowerCase() : name)

/** How many people may decide; a role or group may have any number. */
export const countApprovers = (names: readonly string[]): number =>
  names.some(isShared) ? Number.POSITIVE_INFINITY : new Set(names.map(normalizeApprover)).size

type Authors = Pick<TaskContext['run'], 'startedBy' | 'changedBy'>

/** The subjects that may not decide because of `fourEyes`, each with the reason. */
export function excludedBy({ startedBy, changedBy }: Authors): ReadonlyMap<string, string> {
  const excluded = new Map(changedBy.map((subject) => [subject, 'has changed its data']))
  if (startedBy !== undefined) excluded.set(startedBy, 'has started the execution')
  return excluded
}

/** Says why an approval cannot be granted; names the approvers that are excluded. */
export function tooFew(
  quorum: number,
  names: readonly string[],
  excluded: ReadonlyMap<string, string>,
): string | undefined {
  const left = names.filter((name) => !excluded.has(name))
  const count = countApprovers(left)
  if (count >= quorum) return undefined
  const reasons = [...new Set(names)].flatMap((name) => {
    const reason = excluded.get(name)
    return reason === undefined ? [] : [`${name} ${reason}`]
  })
  const why =
    reasons.length === 0
      ? ''
      : `: ${reasons.join(', ')} and ${reasons.length === 1 ? 'is' : 'are'} not counted (fourEyes)`
  return `${quorum} must approve, and only ${count} may${why}.`
}

export interface Voting {
  readonly approvers: readonly string[]
  readonly quorum: number
  readonly decisions: readonly { readonly by: string; readonly approved: boolean }[]
}

/**
 * The approver that a decision counts for.
 * @param given `by` is the subject that decides; `as` are its other names: its e-mail address, `role:…`, `group:…`
 */
export function approverOf(
  { approvers }: Pick<Voting, 'approvers'>,
  message: JsonObject,
): string | undefined {
  const by = normalizeApprover(String(fieldOf(message, 'by')))
  const as = fieldOf(message, 'as')
  const names = Array.isArray(as) ? as.map((name) => normalizeApprover(String(name))) : []
  // A subject is any text of its issuer's choice, so it cannot stand for a role or group.
  if (!isShared(by) && approvers.includes(by)) return by
  return approvers.find((name) => names.includes(name))
}

/** The reason why a subject may not decide now, for the sender; undefined if it may. */
export function refusalOf(
  voting: Voting,
  message: JsonObject,
  excluded: ReadonlyMap<string, string>,
): string | undefined {
  const by = String(fieldOf(message, 'by'))
  const reason = excluded.get(by)
  if (reason !== undefined) return `\`${by}\` ${reason} and may not decide (fourEyes).`
  if (approverOf(voting, message) === undefined) return `\`${by}\` is not an approver.`
  if (voting.decisions.some((decision) => decision.by === by)) return `\`${by}\` has decided already.`
  return undefined
}

/**
 * True if approved, false once it is rejected, undefined while it is open. It is rejected as soon as the quorum cannot be
 * reached; if a role or group may decide, by the first rejection.
 */
export function verdictOf({ approvers, quorum, decisions }: Voting): boolean | undefined {
  const approved = decisions.filter((decision) => decision.approved).length
  if (approved >= quorum) return true
  const rejected = decisions.length - approved
  if (approvers.some(isShared)) return rejected > 0 ? false : undefined
  const open = approvers.length - decisions.length
  return approved + open < quorum ? false : undefined
}
