/** API keys of a room, as its operator handles them. */

import { expect } from 'vitest'
import type { Running } from './start.ts'
import { asSuperuser, call, eventually, type Reply, type Room } from './tenants.ts'

export const KEYS = '/v1/api-keys'

export function keysOf({ operator: as, workspaceId }: Room) {
  const admin = (method: string, path: string, body?: unknown) =>
    call(method, path, { as, ...(body !== undefined && { body }) })
  return {
    admin,
    make: async (more: object = {}): Promise<Reply['body']> => {
      const body = { workspace_id: workspaceId, kind: 'service', name: 'one', ...more }
      const made = await admin('POST', KEYS, body)
      expect(made.status).toBe(201)
      return made.body
    },
    change: (id: string, body: unknown) => admin('PATCH', `${KEYS}/${id}`, body),
    rotate: (id: string, body: unknown = {}) => admin('POST', `${KEYS}/${id}/rotate`, body),
    revoke: (id: string) => admin('DELETE', `${KEYS}/${id}`),
    get: async (id: string) => (await admin('GET', `${KEYS}/${id}`)).body,
  }
}
export type Keys = ReturnType<typeof keysOf>

/** 200, or the code by which the key is refused. */
export async function told(key: string, at?: Running): Promise<number | string> {
  const path = '/v1/collections/things/documents'
  const { status, body } = await call('GET', path, { as: { apikey: key }, ...(at && { at }) })
  return body.code ?? status
}

/** Longer than any node remembers a key. */
export const becomes = (key: string, wanted: number | string, at?: Running) =>
  eventually(async () => ((await told(key, at)) === wanted ? true : undefined), 7_000)

/** Lets the time of its end go by. */
export const passed = (id: string) =>
  asSuperuser("update tenon.api_keys set expires_at = now() - interval '1 second' where id = $1", [id])

export const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1_000).toISOString()
