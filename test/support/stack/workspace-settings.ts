/** Changes settings of a workspace, as its admin does. */

import { expect, inject } from 'vitest'
import { call, type Reply, type TestWorkspace } from '../fixtures/tenants.ts'
import type { Running } from './start.ts'

/** Sends settings to `POST /v1/services/configure`; any status is a result. */
export const tryConfigure = (
  { workspaceId, operator: as }: TestWorkspace,
  settings: object,
  at: Running = inject('tenon'),
): Promise<Reply> =>
  call('POST', '/v1/services/configure', { as, at, body: { workspace_id: workspaceId, ...settings } })

/** Changes settings. @returns all settings of the workspace */
export async function configure(
  workspace: TestWorkspace,
  settings: object,
  at?: Running,
): Promise<Reply['body']> {
  const { status, body } = await tryConfigure(workspace, settings, at)
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

/** Permits anon keys to read what no declaration closes: undeclared collections, and those declared without `access`. */
export const openCollectionsToAnon = (workspace: TestWorkspace): Promise<Reply['body']> =>
  configure(workspace, { anon: { collections: 'read' } })

/** Permits anon keys to read the objects below these prefixes. */
export const openToAnon = (workspace: TestWorkspace, ...prefixes: string[]): Promise<Reply['body']> =>
  configure(workspace, { anon: { objects: 'public' }, objects: { public_read: prefixes } })

/** The bucket of a workspace. */
export const bucketOf = async (
  { workspaceId, operator: as }: TestWorkspace,
  at: Running = inject('tenon'),
): Promise<string> => (await call('GET', `/v1/workspaces/${workspaceId}`, { as, at })).body.bucket
