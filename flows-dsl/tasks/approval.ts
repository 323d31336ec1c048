/** Knows who may decide an approval, which decisions count, and when it is decided. */

import type { Json, JsonObject } from '../ir.ts'
import { fieldOf } from '../json.ts'

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
