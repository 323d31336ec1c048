/** Flows that start by the clock, in tests: published, listed, and looked at behind the walls, in Temporal. */

import { Client, Connection, ScheduleNotFoundError } from '@temporalio/client'
import { expect, inject } from 'vitest'
import { uuidOf } from '../../src/core/ids.ts'
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

export async function executionsOf(room: Room, flow: string, at?: At) {
  const path = `${room.flows}/definitions/${flow}/executions?page[size]=200`
  return (await call('GET', path, { as: room.operator, ...(at !== undefined && { at }) })).body.data
}

/** Asks Temporal itself. */
export async function withTemporal<T>(work: (client: Client) => Promise<T>): Promise<T> {
  const connection = await Connection.connect({ address: inject('tenon').env['TEMPORAL_ADDRESS'] ?? '' })
  try {
    return await work(new Client({ connection }))
  } finally {
    await connection.close()
  }
}

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
