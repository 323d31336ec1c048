/** The trigger of a call: a run or an execution of the same workspace by the id of its workflow, and no subject of that form. */

import { expect, test } from 'vitest'
import { typeId } from '../../../src/core/ids.ts'
import { workflowId } from '../../../src/core/tenant.ts'
import { callTrigger } from '../../../src/features/functions/runs/run.ts'

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
