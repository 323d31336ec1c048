/** Translates errors of PostgreSQL into problems, and reads from them what callers must judge themselves. */

import { DatabaseError } from 'pg'
import { Problem } from '../../core/problem.ts'
import { unavailable as serverUnavailable } from '../unavailable.ts'

/** 57014: timeout. 55P03: lock timeout. 42501: row-level security or a missing grant. Class 22: a value that a column does not take. */
const REFUSALS = [
  [/^57014$/, 'query_timeout'],
  [/^55P03$/, 'overloaded'],
  [/^42501$/, 'forbidden'],
  [/^22/, 'value_invalid'],
] as const

/**
 * Class 08 connection, 53 resources, 57P0x shutdown, 58 system: the server's fault, not the statement's.
 * @param isPublic true if the caller is an anon key or an end user
 */
export function translate(error: unknown, isPublic = false): Problem | DatabaseError {
  if (error instanceof Problem) return error
  if (!(error instanceof DatabaseError)) return unavailable(error)
  const code = error.code ?? ''
  if (code === QUOTA_EXCEEDED) return quotaExceeded(error, isPublic)
  if (code === ALLOTMENT_EXCEEDED) return allotmentExceeded(error)
  if (code === CONCURRENCY_LIMITED) return concurrencyLimited(error)
  if (code === TOO_LONG) return tooLongForIndex(error)
  if (code === TOO_MANY_UPLOADS) return tooManyUploads(error)
  const refusal = REFUSALS.find(([pattern]) => pattern.test(code))
  if (refusal !== undefined) return new Problem(refusal[1], { cause: error })
  return /^(08|53|57P|58)/.test(code) ? unavailable(error) : error
}

/** Raised by tenon.require_upload_room (features/objects/objects.sql), with the limit in its detail. */
const TOO_MANY_UPLOADS = 'TN005'

function tooManyUploads(error: DatabaseError): Problem {
  const whose = error.message === 'uploads' ? 'The workspace has' : 'You have'
  const detail = `${whose} ${error.detail} open uploads, which is the most there may be.`
  return new Problem('too_many_uploads', { detail, cause: error })
}

/** A row is too long for an index. */
export const TOO_LONG = '54000'

export const tooLongForIndex = (cause: unknown) =>
  new Problem('value_invalid', {
    detail: 'A text of an indexed field exceeds the limit of indexes, about 2,600 bytes.',
    hint: 'Store a shorter text, or remove the index from the declaration of the collection.',
    cause,
  })

/** Raised by tenon.use_quota, with the quota in its detail. */
const QUOTA_EXCEEDED = 'TQ001'

/** Raised by tenon.keep_allotment (features/quotas/quotas.sql). */
const ALLOTMENT_EXCEEDED = 'TQ003'

type AllotmentMembers = {
  readonly quota: string
  readonly tenant_id: string
  readonly limit: number
  /** The limits of its workspaces, added up; of a quota that holds for each thing by itself, the greatest. */
  readonly allotted: number
  /** Workspaces without a limit. */
  readonly without_limit?: readonly string[]
}

function allotmentExceeded(error: DatabaseError): Problem {
  const members = JSON.parse(error.detail ?? '{}') as AllotmentMembers
  const { quota, tenant_id, limit, allotted, without_limit: unlimited = [] } = members
  const whose = `The quota ${quota} of the tenant ${tenant_id} is ${limit}`
  const detail =
    unlimited.length > 0
      ? `${whose}, so each of its workspaces needs a limit; without one: ${unlimited.slice(0, 10).join(', ')}.`
      : `${whose}, and its workspaces would have ${allotted}${quota === 'mcp_tools' ? '' : ' together'}.`
  return new Problem('state_conflict', {
    detail,
    hint: 'Lower the quota of another workspace of the tenant, or ask an operator to raise that of the tenant.',
    members,
    cause: error,
  })
}

/** Raised by tenon.acquire_slot (features/runs/slots.sql). */
const CONCURRENCY_LIMITED = 'TQ002'

type SlotMembers = {
  readonly limit: number
  readonly running: number
  readonly key: string
  /** The maximum of a full queue. */
  readonly queued?: number
}

function concurrencyLimited(error: DatabaseError): Problem {
  const members = JSON.parse(error.detail ?? '{}') as SlotMembers
  const { queued } = members
  if (queued !== undefined)
    return new Problem('concurrency_limited', {
      detail: `At most ${queued} executions may queue for a slot of the flow and this key, and ${queued} do.`,
      hint: 'Try again when some of them have started, or cancel them.',
      members,
      cause: error,
    })
  const detail = `At most ${members.limit} may run at the same time, and ${members.running} do.`
  return new Problem('concurrency_limited', { detail, members, cause: error })
}

type QuotaMembers = {
  readonly quota: string
  readonly limit: number
  readonly used: number
  /** Of a window of time. */
  readonly resets_at?: string
}

function quotaExceeded(error: DatabaseError, isPublic: boolean): Problem {
  const members = JSON.parse(error.detail ?? '{}') as QuotaMembers
  const { quota, resets_at } = members
  const headers = resets_at === undefined ? {} : { 'retry-after': secondsUntil(resets_at) }
  // The public does not learn how much the workspace holds, which may not read all collections.
  if (isPublic)
    return new Problem('quota_exceeded', {
      detail: `The quota ${quota} is used up.`,
      members: { quota, ...(resets_at !== undefined && { resets_at }) },
      headers,
      cause: error,
    })
  const detail = `The quota ${members.quota} is ${members.limit}, and ${members.used} are in use.`
  return new Problem('quota_exceeded', { detail, members, headers, cause: error })
}

const secondsUntil = (time: string): string =>
  String(Math.max(1, Math.ceil((Date.parse(time) - Date.now()) / 1_000)))

export const BUSY = 'All database connections are busy.'

export function unavailable(cause: unknown): Problem {
  const waited = cause instanceof Error && /timeout exceeded when trying to connect/.test(cause.message)
  if (waited) return new Problem('overloaded', { detail: BUSY, cause })
  return serverUnavailable('postgres', cause)
}

/** The name of a violated unique or foreign key; undefined for other errors. */
export function violated(error: unknown): string | undefined {
  if (!(error instanceof DatabaseError)) return undefined
  return error.code === '23505' || error.code === '23503' ? error.constraint : undefined
}

/** The name of a violated exclusion constraint, or of the trigger that has refused a row; undefined for other errors. */
export function violatedCondition(error: unknown): string | undefined {
  if (!(error instanceof DatabaseError)) return undefined
  return error.code === '23P01' || error.code === '23514' ? error.constraint : undefined
}

/** True if the statement was refused by a trigger or constraint of that name. */
export const isRefusedBy = (error: unknown, constraint: string): boolean =>
  error instanceof DatabaseError && error.constraint === constraint

/** The number of the caller's statement that failed, from 0; undefined if it was none of them. */
export function failedStatement(error: unknown): number | undefined {
  const from = error instanceof Problem ? error.cause : error
  const { statement } = Object(from) as { statement?: unknown }
  return typeof statement === 'number' && statement >= 0 ? statement : undefined
}

/** The current version of a document, if tenon.refuse_change refused its change. */
export function changeRefused(
  error: unknown,
): { current: { version: number; bytes: number } | null } | undefined {
  if (!(error instanceof DatabaseError) || error.code !== 'TN003') return undefined
  return JSON.parse(error.detail ?? '{}')
}

/** Names the thing that has changed since it was read, if tenon.refuse_object_change ended a change of an object. */
export function readObjectChange(error: unknown): 'object' | 'upload' | undefined {
  if (!(error instanceof DatabaseError) || error.code !== 'TN004') return undefined
  return error.message.startsWith('upload') ? 'upload' : 'object'
}

/** Refusals of our own functions, and a table that was dropped with its declaration. */
const RAISED: Readonly<Record<string, 'is_declared' | 'no_table' | 'no_column' | 'deadlock'>> = {
  TN002: 'is_declared',
  '42P01': 'no_table',
  '42703': 'no_column',
  '40P01': 'deadlock',
}

/** Why the database refused a statement on a collection; undefined for other errors. */
export function refusal(error: unknown): (typeof RAISED)[string] | undefined {
  return error instanceof DatabaseError ? RAISED[error.code ?? ''] : undefined
}

/** For work that is repeated: undefined if PostgreSQL has cancelled it because two transactions waited for each other. @throws any other error */
export function undefinedOnDeadlock(error: unknown): undefined {
  if (refusal(error) !== 'deadlock') throw error
}
