/** Flows that start by the clock, in tests: published, listed, and looked at behind the walls, in Temporal. */

import { ScheduleNotFoundError } from '@temporalio/client'
import { expect } from 'vitest'
import { uuidOf } from '../../src/core/ids.ts'
import { withReadingClient } from './temporal.ts'
import { call, type Room } from './tenants.ts'

type At = NonNullable<Parameters<typeof call>[2]>['at']

export interface Shown {
  readonly id: string
  readonly key: string
  readonly flow_id: string
  readonly paused: boolean
}

const DONE = '[{ a: { set: { done: true } } }]'

/** Drafts a flow, or its next draft, and publishes it: the reply to the latter. */
export async function publishScheduled(room: Room, name: string, schedule: string, tasks = DONE, at?: At) {
  const more = { as: room.operator, ...(at !== undefined && { at }) }
  const source = [
    `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }`,
    ...(schedule === '' ? [] : [`schedule: ${schedule}`]),
    `do: ${tasks}`,
  ].join('\n')
  const path = `${room.flows}/definitions/${name}`
  const isThere = (await call('GET', path, more)).status === 200
  const drafted = isThere
    ? await call('PUT', path, { ...more, body: { source } })
    : await call('POST', `${room.flows}/definitions`, { ...more, body: { source } })
  expect(drafted.body.faults).toEqual([])
  return call('POST', `${path}/versions`, { ...more, body: {} })
}

export async function schedulesOf(room: Room, flow: string): Promise<Shown[]> {
  return (await call('GET', `${room.flows}/schedules?flow=${flow}`, { as: room.operator })).body.data
}

export async function onlyScheduleOf(room: Room, flow: string): Promise<Shown> {
  const [only, ...more] = await schedulesOf(room, flow)
  if (only === undefined || more.length > 0) throw new Error(`${flow} has ${more.length} more`)
  return only
}

/** The first of a flow, in their order, each as a whole. */
export async function executionsOf(room: Room, flow: string, at?: At) {
  const read = async (path: string) =>
    (await call('GET', `${room.flows}${path}`, { as: room.operator, ...(at !== undefined && { at }) })).body
  const { data } = await read(`/definitions/${flow}/executions?page[size]=50&order=asc`)
  return Promise.all(data.map(({ id }: { id: string }) => read(`/executions/${id}`)))
}

/** Asks Temporal itself. */
export const withTemporal = withReadingClient

export const scheduleId = (room: Room, { flow_id, id }: Shown): string =>
  `${room.tenantId}:${room.workspaceId}:${flow_id}:${uuidOf(id)}`

/** Whether Temporal has it. */
export const isScheduled = (room: Room, shown: Shown): Promise<boolean> =>
  withTemporal(async (client) => {
    try {
      await client.schedule.getHandle(scheduleId(room, shown)).describe()
      return true
    } catch (error) {
      if (error instanceof ScheduleNotFoundError) return false
      throw error
    }
  })
