/** Flows that events start, in tests: published, and what they were started by. */

import { expect } from 'vitest'
import { publishScheduled } from './schedules.ts'
import { asSuperuser, call, eventually, type Room, unique } from './tenants.ts'

export interface Published {
  readonly name: string
  readonly flowId: string
  readonly triggerId: string
}

/** Publishes a flow that these events start. */
export async function publishOn(
  at: Room,
  on: string,
  { name = unique('on'), more = '', tasks = "  - a: { set: { got: '${ . }' } }" } = {},
): Promise<Published> {
  const published = await publishScheduled(at, name, `{ on: ${on}${more} }`, `\n${tasks}`)
  expect(published.status, JSON.stringify(published.body)).toBe(201)
  const flowId = published.body.flow_id
  const [row] = await asSuperuser<{ id: string }>('select id from tenon.flow_triggers where flow_id = $1', [
    flowId,
  ])
  return { name, flowId, triggerId: row?.id ?? '' }
}

/** @returns the id of the event */
export async function emitAt(room: Room, topic: string, data: unknown): Promise<string> {
  const { body } = await call('POST', '/v1/events/publish', { as: room.service, body: { topic, data } })
  return body.id
}

export interface Run {
  readonly id: string
  readonly status: string
  readonly input: unknown
}

export const workflowsOf = ({ flowId }: Published) =>
  asSuperuser<Run>('select id, status, input from tenon.executions where flow_id = $1 order by id', [flowId])

/** Its runs, once there are so many that have ended. */
export const ended = (flow: Published, count: number) =>
  eventually(async () => {
    const runs = await workflowsOf(flow)
    return runs.filter(({ status }) => status === 'completed').length >= count ? runs : undefined
  })
