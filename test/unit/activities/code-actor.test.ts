/** On whose behalf the code of a run acts, for each trigger. */

import { expect, test } from 'vitest'
import { actorOfCode, noRights } from '../../../src/activities/function/code-actor.ts'
import type { FunctionCaller, FunctionTrigger } from '../../../src/core/work.ts'

const RUN = { workflowId: 'ten_1:ws_1:fn_1:0199', chainDepth: 2 }
const OF_RUN = { subject: RUN.workflowId, chainDepth: 2, onBehalfOf: 'mia' }
const USER: FunctionCaller = {
  subject: 'mia',
  role: 'user',
  clientId: 'client_1',
  groups: ['staff'],
  user: { id: 'mia', email: 'mia@example.com', emailVerified: true, claims: { team: 'a' } },
  scopes: ['functions:write'],
}
const actor = (kind: FunctionTrigger['kind'], scopes: string[] = [], caller = USER) =>
  actorOfCode(RUN, { caller, trigger: { kind } }, scopes)

test.each(['api', 'http', 'flow', 'function', 'redrive'] as const)(
  '%s: the caller, with its scopes',
  (kind) => {
    const { clientId, groups, role, user } = USER
    expect(actor(kind)).toEqual({
      ...OF_RUN,
      clientId,
      groups,
      role,
      user,
      scopes: new Set(['functions:write']),
    })
  },
)

test('a caller without restrictions: none are added', () => {
  expect(actor('api', [], { subject: 'mia', role: 'service' })).toEqual({ ...OF_RUN, role: 'service' })
})

test.each(['schedule', 'event', 'mcp'] as const)(
  '%s: nobody, unless the function declares scopes',
  (kind) => {
    expect(actor(kind)).toBeUndefined()
    expect(noRights({ trigger: { kind } }).detail).toMatch(/^A run that .+ has started .+ `scopes`/)
    const service = { ...OF_RUN, role: 'service', scopes: new Set(['events:write']) }
    expect(actor(kind, ['events:write'])).toEqual(service)
  },
)

test('declared scopes: nothing of the caller is left but its name', () => {
  const service = { ...OF_RUN, role: 'service', scopes: new Set(['collections:read']) }
  expect(actor('api', ['collections:read'])).toEqual(service)
})
