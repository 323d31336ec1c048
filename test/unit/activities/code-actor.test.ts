/** On whose behalf the code of a run acts, and with which rights. */

import { expect, test } from 'vitest'
import { actorOfCode, noRights } from '../../../src/activities/function/code-caller.ts'
import type { WorkCaller } from '../../../src/core/work.ts'
import { callerWithoutRights } from '../../../src/features/runs/caller.ts'

const RUN = { workflowId: 'ten_1:ws_1:fn_1:0199', chainDepth: 2 }
const OF_RUN = { subject: RUN.workflowId, chainDepth: 2, onBehalfOf: 'mia' }
const USER: WorkCaller = {
  subject: 'mia',
  role: 'user',
  clientId: 'client_1',
  groups: ['staff'],
  user: { id: 'mia', email: 'mia@example.com', emailVerified: true, claims: { team: 'a' } },
  scopes: ['functions:write'],
}
const actor = (scopes: string[] = [], caller = USER) => actorOfCode(RUN, { caller }, scopes)

test('the caller, with its scopes', () => {
  const { clientId, groups, role, user } = USER
  expect(actor()).toEqual({ ...OF_RUN, clientId, groups, role, user, scopes: new Set(['functions:write']) })
})

test('a caller without restrictions: none are added', () => {
  expect(actor([], { subject: 'mia', role: 'service' })).toEqual({ ...OF_RUN, role: 'service' })
})

test('a caller without rights: nothing is allowed, unless the function declares scopes', () => {
  const caller = callerWithoutRights('trigger:trg_1', [])
  expect(actor([], caller)).toBeUndefined()
  const service = {
    ...OF_RUN,
    onBehalfOf: 'trigger:trg_1',
    role: 'service',
    scopes: new Set(['events:write']),
  }
  expect(actor(['events:write'], caller)).toEqual(service)
})

test.each(['schedule', 'event', 'mcp', 'redrive'] as const)(
  '%s without rights: says what to declare',
  (kind) => {
    expect(noRights({ trigger: { kind } }).detail).toMatch(/^The run has no caller with rights .+ `scopes`/)
  },
)

test('declared scopes: of the caller, name and user are left, and no rights', () => {
  const scopes = new Set(['collections:read'])
  const service = { ...OF_RUN, role: 'service', scopes, onBehalfOfUser: USER.user }
  expect(actor(['collections:read'])).toEqual(service)
})
