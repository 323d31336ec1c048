/** Changes settings of a workspace, as its admin does. */

import { expect } from 'vitest'
import { call, type Reply, type Room } from '../fixtures/tenants.ts'

/** Sends settings to `POST /v1/services/configure`; any status is a result. */
export const configuring = ({ workspaceId, operator: as }: Room, settings: object): Promise<Reply> =>
  call('POST', '/v1/services/configure', { as, body: { workspace_id: workspaceId, ...settings } })

/** Changes settings. @returns all settings of the workspace */
export async function configured(room: Room, settings: object): Promise<Reply['body']> {
  const { status, body } = await configuring(room, settings)
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}

/** Permits anon keys to read the objects below these prefixes. */
export const opened = (room: Room, ...prefixes: string[]): Promise<Reply['body']> =>
  configured(room, { anon: { objects: 'public' }, objects: { public_read: prefixes } })

export const bucketOf = async ({ workspaceId, operator: as }: Room): Promise<string> =>
  (await call('GET', `/v1/workspaces/${workspaceId}`, { as })).body.bucket
