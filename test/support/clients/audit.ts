/** Reads entries of the audit log, through the API or as superuser. */

import { expect } from 'vitest'
import { asSuperuser, type Caller, call, type TestWorkspace } from '../fixtures/tenants.ts'

export interface Entry {
  readonly seq: number
  readonly tenant_id: string
  readonly operation: string
  readonly outcome: string
  readonly request_id: string | null
  readonly detail?: { readonly [member: string]: unknown }
  readonly prev_hash: string
  readonly hash: string
  readonly [member: string]: unknown
}

/** Newest first; the first page. */
export async function entriesOf(as: Caller, query: string): Promise<Entry[]> {
  const { body, status } = await call('GET', `/v1/audit?page[size]=200${query}`, { as })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.data
}

export const entriesOfWorkspace = (workspace: TestWorkspace, more = '') =>
  entriesOf(workspace.operator, `&tenant_id=${workspace.tenantId}${more}`)

export async function verified(workspace: TestWorkspace, more = '') {
  const path = `/v1/audit/verify?tenant_id=${workspace.tenantId}${more}`
  return (await call('GET', path, { as: workspace.operator })).body
}

/** Read from the table, of any chain. */
export async function recorded(like: string): Promise<Entry[]> {
  const rows = await asSuperuser<{ entry: Entry }>(
    "select entry::json as entry from tenon.audit where case when entry is json then entry::jsonb ->> 'request_id' like $1 end order by tenant_id, seq",
    [like],
  )
  return rows.map(({ entry }) => entry)
}
