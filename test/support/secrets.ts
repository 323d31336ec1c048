/** Secrets of a room, and flows that use them. */

import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import type { Outside } from './outside.ts'
import { call, eventually, type Reply, type Room, unique } from './tenants.ts'

/** A text that is nowhere by chance. */
export const canary = (more = '') => `canary${more}${randomBytes(9).toString('hex')}`

/** Lets the flows of the room call a server on loopback. */
export async function reachable(room: Room, outside: Outside): Promise<void> {
  const body = { workspace_id: room.workspaceId, egress: { allow: [outside.place] } }
  const set = await call('POST', '/v1/services/configure', { as: room.operator, body })
  expect(set.status).toBe(200)
}

export const put = (room: Room, name: string, value: unknown): Promise<Reply> =>
  call('PUT', `${room.flows}/secrets/${name}`, { as: room.operator, body: { value } })

export async function stored(room: Room, name: string, value: unknown): Promise<void> {
  const { status, body } = await put(room, name, value)
  expect(status, JSON.stringify(body)).toBe(200)
}

export const remove = (room: Room, name: string): Promise<Reply> =>
  call('DELETE', `${room.flows}/secrets/${name}`, { as: room.operator })

/** A flow as a draft. @returns its path */
export async function drafted(room: Room, secrets: readonly string[], tasks: string): Promise<string> {
  const name = unique('f')
  const use = secrets.length === 0 ? '' : `use: { secrets: [${secrets.join(', ')}] }\n`
  const source = `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }\n${use}do:\n${tasks}\n`
  const made = await call('POST', `${room.flows}/definitions`, { as: room.operator, body: { source } })
  expect(made.body.faults, JSON.stringify(made.body)).toEqual([])
  return `${room.flows}/definitions/${name}`
}

export const publish = (room: Room, flow: string): Promise<Reply> =>
  call('POST', `${flow}/versions`, { as: room.operator, body: {} })

export async function published(room: Room, secrets: readonly string[], tasks: string): Promise<string> {
  const flow = await drafted(room, secrets, tasks)
  const { status, body } = await publish(room, flow)
  expect(status, JSON.stringify(body)).toBe(201)
  return flow
}

/** Starts the flow. @returns the execution as it is after so many seconds at most */
export async function ran(room: Room, flow: string, input: unknown = {}, wait = 25) {
  const headers = { prefer: `wait=${wait}` }
  const { status, body } = await call('POST', `${flow}/executions`, {
    as: room.operator,
    body: { input },
    headers,
  })
  expect(status, JSON.stringify(body)).toBe(201)
  return body
}

export const until = (room: Room, id: string, status: string) =>
  eventually(async () => {
    const { body } = await call('GET', `${room.flows}/executions/${id}`, { as: room.operator })
    return body.status === status ? body : undefined
  })

export const signal = (room: Room, id: string, event: object): Promise<Reply> =>
  call('POST', `${room.flows}/executions/${id}/signal`, { as: room.operator, body: { event } })

/** A task that posts to a server outside. */
export const posting = (name: string, uri: string, more: string, authentication = '') => `
  - ${name}:
      call: http
      with: { method: post, endpoint: { uri: '${uri}'${authentication && `, authentication: ${authentication}`} }, ${more} }`
