/** `context.caller`, by the rights of a run and by what has started it. */

import { expect, test } from 'vitest'
import { callerForCode } from '../../../src/activities/function/code-caller.ts'
import type { EndUser } from '../../../src/core/policy.ts'
import { type WorkspaceRef, workflowId } from '../../../src/core/tenant.ts'
import type { FunctionTrigger, WorkCaller } from '../../../src/core/work.ts'
import { callerWithoutRights } from '../../../src/features/runs/caller.ts'
import { triggerActor } from '../../../src/features/runs/triggers/trigger-starter.ts'

const ref = {
  tenantId: 'ten_01m8d7j9z4ey18tqh5stzxs4vt',
  workspaceId: 'ws_01m8d7j9z4ey18tqh5stzxs4vt',
} as WorkspaceRef
const USER: EndUser = { id: 'mia', email: 'mia@example.com', emailVerified: true, claims: { team: 'a' } }
const SHOWN = { id: 'mia', email: 'mia@example.com', claims: { team: 'a' } }
const MIA: WorkCaller = {
  subject: 'mia',
  role: 'user',
  user: USER,
  groups: ['staff'],
  scopes: ['a:read'],
}

const callerOf = (caller: WorkCaller, trigger: FunctionTrigger) => callerForCode({ ref }, { caller, trigger })

test.each(['api', 'http'] as const)('%s: the role and the id of the credential', (kind) => {
  expect(callerOf({ subject: 'key_1', role: 'service' }, { kind })).toEqual({ kind: 'service', id: 'key_1' })
  expect(callerOf({ subject: 'key_2', role: 'anon' }, { kind })).toEqual({ kind: 'anon', id: 'key_2' })
  expect(callerOf(MIA, { kind })).toEqual({ kind: 'user', id: 'mia', user: SHOWN })
})

test('address that was not verified: missing', () => {
  const user = { ...USER, emailVerified: false }
  expect(callerOf({ ...MIA, user }, { kind: 'api' }).user).toEqual({ id: 'mia', claims: { team: 'a' } })
})

test.each(['schedule', 'event'] as const)('%s: the id of the trigger', (kind) => {
  const caller = callerWithoutRights(triggerActor('trg_1').subject, [])
  expect(callerOf(caller, { kind, id: 'trg_1' })).toEqual({ kind, id: 'trg_1' })
})

test('tool: the server, on behalf of its client', () => {
  const caller = callerWithoutRights('usr_1', [])
  const trigger = { kind: 'mcp', id: 'mcp_1' } as const
  expect(callerOf(caller, trigger)).toEqual({ kind: 'mcp', id: 'mcp_1', on_behalf_of: 'usr_1' })
})

const UUID = '01990000-0000-7000-8000-000000000000'
const FLOW = workflowId(ref, 'flow_1', UUID)
const RUN = expect.stringMatching(/^run_\w{26}$/)

test('execution of a flow: its id; of the function that a function in it calls, on its behalf', () => {
  const caller: WorkCaller = { subject: FLOW, role: 'service' }
  const { id } = callerOf(caller, { kind: 'api' })
  expect(id).toEqual(RUN)
  expect(callerOf(caller, { kind: 'flow', id })).toEqual({ kind: 'flow', id })
  const nested = { kind: 'function', id: 'run_2' } as const
  expect(callerOf(caller, nested)).toEqual({ ...nested, on_behalf_of: id })
})

test('subject that looks like an execution of another workspace: stays as it is', () => {
  const subject = FLOW.replace(ref.workspaceId, 'ws_01m8d7j9z4ey18tqh5stzxs4vv')
  expect(callerOf({ subject, role: 'service' }, { kind: 'api' })).toEqual({ kind: 'service', id: subject })
})

test('function that another one has called for a user, with the rights of the user or with its own: the user', () => {
  const trigger = { kind: 'function', id: 'run_1' } as const
  const visibleTrigger = { ...trigger, on_behalf_of: 'mia', user: SHOWN }
  expect(callerOf(MIA, trigger)).toEqual(visibleTrigger)
  const scoped: WorkCaller = { subject: 'mia', role: 'service', scopes: [], onBehalfOfUser: USER }
  expect(callerOf(scoped, trigger)).toEqual(visibleTrigger)
})

test('dead letter that is run again: the start of its first run', () => {
  const caller = {
    ...callerWithoutRights(triggerActor('trg_1').subject, []),
    via: { kind: 'event', id: 'trg_1' },
  } as const
  expect(callerOf(caller, { kind: 'redrive', id: 'run_1' })).toEqual({ kind: 'event', id: 'trg_1' })
})
