/** The run behind a subject, and the trigger of its calls: the id of a workflow of the workspace, and no other subject of that form. */

import { expect, test } from 'vitest'
import { typeId } from '../../../src/core/ids.ts'
import { runBehind, workflowId } from '../../../src/core/tenant.ts'
import { callTrigger } from '../../../src/features/runs/caller.ts'

const UUID = '0199a0f0-0000-7000-8000-000000000001'
const ref = { tenantId: typeId('ten', UUID), workspaceId: typeId('ws', UUID) }
const triggerOf = (subject: string) => callTrigger({ ref, actor: { subject, role: 'service' } })

test.each([
  ['function', typeId('fn', UUID), ''],
  ['flow', typeId('flow', UUID), ''],
  ['flow', typeId('flow', UUID), '-2026-11-21T09:00:00Z'],
])('%s: by the id of its workflow', (kind, subject, scheduled) => {
  const id = workflowId(ref, subject, UUID) + scheduled
  expect(triggerOf(id)).toEqual({ kind, id: typeId('run', UUID) })
})

test.each([
  ['a letter instead of a UUID', workflowId(ref, 'flow_x', 'abc')],
  ['a tenant as a whole', workflowId({ ...ref, workspaceId: '-' }, 'flow_x', UUID)],
  ['a tenant of another form', `ten_1:${ref.workspaceId}:flow_x:${UUID}`],
  ['another kind of work', workflowId(ref, 'export', UUID)],
  ['an account of Kubernetes', 'system:serviceaccount:flow_x:app'],
  ['a key', typeId('key', UUID)],
])('subject of a token: %s: no run is behind it', (_, subject) => {
  expect(runBehind(subject)).toBeUndefined()
})

test('subject of a run in another workspace of the tenant: its run and its workspace', () => {
  const other = { ...ref, workspaceId: typeId('ws', UUID.replace('1', '2')) }
  const found = { kind: 'function', id: typeId('run', UUID), ref: other }
  expect(runBehind(workflowId(other, 'fn_x', UUID))).toEqual(found)
})

test.each([
  ['an account of Kubernetes', 'system:serviceaccount:flow_x:app'],
  [
    'another workspace',
    workflowId({ ...ref, workspaceId: typeId('ws', UUID.replace('1', '2')) }, 'fn_x', UUID),
  ],
  ['another tenant', workflowId({ ...ref, tenantId: typeId('ten', UUID.replace('1', '2')) }, 'fn_x', UUID)],
  ['no UUID', workflowId(ref, 'fn_x', 'x'.repeat(36))],
  ['neither a function nor a flow', workflowId(ref, 'export', UUID)],
  ['a name of JavaScript', workflowId(ref, 'constructor', UUID)],
  ['five parts', `${workflowId(ref, 'fn_x', UUID)}:${UUID}`],
  ['a key', typeId('key', UUID)],
])('a request: %s', (_, subject) => {
  expect(triggerOf(subject)).toEqual({ kind: 'api' })
})
