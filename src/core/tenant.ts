/** References to tenants and workspaces, and the form of workflow ids. */

import { isUuid, typeId } from './ids.ts'

export type TenantId = `ten_${string}`
export type WorkspaceId = `ws_${string}`

/** A tenant and workspace. `-` as workspace means the tenant as a whole. */
export interface TenantRef {
  readonly tenantId: TenantId
  readonly workspaceId: WorkspaceId | '-'
}

/** A reference to a workspace. */
export interface WorkspaceRef extends TenantRef {
  readonly workspaceId: WorkspaceId
}

/** The id of the workspace, or of the tenant as a whole. */
export const targetOf = ({ tenantId, workspaceId }: TenantRef): string =>
  workspaceId === '-' ? tenantId : workspaceId

/** `<tenant>:<workspace>:`; compared with its trailing colon, so that `ten_1` never matches `ten_10`. */
function workflowPrefix(ref: TenantRef): string {
  return `${ref.tenantId}:${ref.workspaceId}:`
}

/** `tenant:workspace:subject:run`, the id of a workflow; `subject` is a flow, a function or the name of tenant work. */
export function workflowId(ref: TenantRef, subject: string, runUuid: string): string {
  return `${workflowPrefix(ref)}${subject}:${runUuid}`
}

/** A workflow id without the time that a schedule of Temporal appends to it, such as `-2026-11-21T09:00:00Z`. */
export const withoutScheduledTime = (id: string): string =>
  id.replace(/-\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/, '')

const partsOf = (id: string): string[] => withoutScheduledTime(id).split(':')

/** True if a workflow id belongs to the reference. Checked before any Temporal call. */
export function owns(ref: TenantRef, id: string): boolean {
  return id.startsWith(workflowPrefix(ref)) && partsOf(id).length === 4
}

/** The reference in a workflow id; undefined if the id does not have four parts. */
export function refOf(id: string): TenantRef | undefined {
  const [tenantId, workspaceId, ...rest] = partsOf(id)
  if (rest.length !== 2 || !isTenantId(tenantId)) return undefined
  return workspaceId === '-' || isWorkspaceId(workspaceId) ? { tenantId, workspaceId } : undefined
}

/** The workflow of an execution of a flow, or of a run of a function. */
interface RunOfWorkspace {
  readonly kind: 'flow' | 'function'
  readonly id: `run_${string}`
  readonly ref: WorkspaceRef
}

/**
 * The run that acts as this subject, which is the id of its workflow. Subjects of tokens may have any form.
 * @returns undefined for any other subject
 */
export function runBehind(subject: string): RunOfWorkspace | undefined {
  const { tenantId, workspaceId } = refOf(subject) ?? {}
  const [, , from = '', uuid = ''] = partsOf(subject)
  const kind = from.startsWith('fn_') ? 'function' : from.startsWith('flow_') ? 'flow' : undefined
  if (kind === undefined || !isUuid(uuid) || tenantId === undefined || !isWorkspaceId(workspaceId))
    return undefined
  return { kind, id: typeId('run', uuid), ref: { tenantId, workspaceId } }
}

export function isTenantId(text: unknown): text is TenantId {
  return typeof text === 'string' && /^ten_[0-9a-hjkmnp-tv-z]{26}$/.test(text)
}

export function isWorkspaceId(text: unknown): text is WorkspaceId {
  return typeof text === 'string' && /^ws_[0-9a-hjkmnp-tv-z]{26}$/.test(text)
}
