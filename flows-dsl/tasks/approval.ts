/** Knows who may decide an approval, which decisions count, and when it is decided. */

import type { Json, JsonObject } from '../ir.ts'
import { fieldOf } from '../json.ts'

/** What one of the approvers has said. `at` is an ISO 8601 time. */
export type Decision = JsonObject & { by: string; approved: boolean; at: string }

/** An approval that waits. All of it is plain JSON. */
export interface Approval {
  /** Of those who may decide, each once. */
  readonly approvers: readonly string[]
  readonly quorum: number
  readonly decisions: readonly Decision[]
}

/** Whoever started the run is none of the approvers where four eyes are asked for. */
export function approversOf(names: Json, startedBy: string | undefined, fourEyes: boolean): string[] | undefined {
  if (!Array.isArray(names)) return undefined
  if (!names.every((name) => typeof name === 'string' && name.trim() !== '')) return undefined
  const all = [...new Set(names as string[])]
  return fourEyes ? all.filter((name) => name !== startedBy) : all
}

/** Why somebody may not decide now, in words for him, or nothing. */
export function refusalOf({ approvers, decisions }: Approval, by: string): string | undefined {
  if (!approvers.includes(by)) return `\`${by}\` is none of those who may decide.`
  if (decisions.some((decision) => decision.by === by)) return `\`${by}\` has decided already.`
  return undefined
}

/** Whether it is approved, if that is sure by now: rejected as soon as the quorum cannot be reached any more. */
export function verdictOf({ approvers, quorum, decisions }: Approval): boolean | undefined {
  const approved = decisions.filter((decision) => fieldOf(decision, 'approved') === true).length
  if (approved >= quorum) return true
  const open = approvers.length - decisions.length
  return approved + open < quorum ? false : undefined
}
