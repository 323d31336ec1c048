/** Activities that no workflow of ours has asked for: whose they are is checked, and what they may do is the catalogue. */

import { v7 } from 'uuid'
import { beforeAll, expect, test } from 'vitest'
import type { TenantRef, WorkspaceRef } from '../../src/core/tenant.ts'
import { QUEUES } from '../../src/platform/temporal.ts'
import { CATALOGUE } from '../../src/resources/catalogue.ts'
import { OPERATIONS } from '../../src/resources/index.ts'
import { done } from '../support/hand-made-work.ts'
import { aRoom, aWorkspace, call, type Room } from '../support/tenants.ts'

let room: Room
let ours: WorkspaceRef
beforeAll(async () => {
  room = await aRoom()
  ours = refOf(room)
})

const refOf = ({ tenantId, workspaceId }: Room) => ({ tenantId, workspaceId }) as WorkspaceRef
const workflowId = () => `${room.tenantId}:${room.workspaceId}:flow_x:${v7()}`

const calling = (name: string, given: object, ref: TenantRef | undefined = ours) => ({
  ...{ activity: 'callFunction', queue: QUEUES.calls, ref },
  input: [{ function: name, arguments: given }],
})
const noting = { name: 'notes', document: { written: true } }
const notes = async (of: Room) =>
  (await call('GET', '/v1/collections/notes/documents', { as: of.service })).body.data ?? []

test('an activity whose header is not there, or names others than the id, does nothing, on whichever queue', async () => {
  const [other, sibling] = await Promise.all([aRoom(), aWorkspace(room)])
  const wrong: readonly (TenantRef | undefined)[] = [
    undefined,
    refOf(other),
    refOf(sibling),
    { ...ours, workspaceId: '-' },
    { tenantId: ours.tenantId, workspaceId: undefined as never },
  ]
  const about = { operation_id: 'op_x', kind: 'tenant', target: ours, steps: ['encryption_key'] }
  const activities = [
    ['callFunction', QUEUES.flows, [{ function: 'collection.create', arguments: noting }]],
    ['callFunction', QUEUES.calls, [{ function: 'collection.create', arguments: noting }]],
    ['provisionStep', QUEUES.provisioning, [about, 'encryption_key']],
    ['runFunction', QUEUES.functions, [{}]],
    ['buildIndex', QUEUES.indexes, [{}, 'i1']],
  ] as const
  const tasks = wrong.flatMap((ref) =>
    activities.map(([activity, queue, input]) => ({ activity, queue, input, ref })),
  )
  expect(await done(workflowId(), tasks)).toEqual(tasks.map(() => 'tenant_mismatch'))
  expect(await Promise.all([room, other, sibling].map(notes))).toEqual([[], [], []])
})

test('one of the catalogue is done; any other operation is none, however it is asked for', async () => {
  const others = OPERATIONS.map(({ name }) => name).filter((name) => !Object.hasOwn(CATALOGUE, name))
  expect(others).toEqual(expect.arrayContaining(['tenant.create', 'api_key.create', 'flow_version.create']))
  const names = [...others, 'nothing', '', '__proto__', 'constructor', 'callFunction', '$subflow']
  const body = { workspace_id: room.workspaceId, tenant_id: room.tenantId, name: 'made', slug: 'made' }
  const tasks = names.map((name) => calling(name, { ...body, ...noting }))
  const outcomes = await done(workflowId(), [calling('collection.create', noting), ...tasks])
  expect(outcomes).toEqual(['completed', ...names.map(() => 'not_found')])
  expect(await notes(room)).toMatchObject([{ written: true }])
})
