/** Which scopes have the completion of the request's idempotency claim: that of its own operation, and none derived for other work. */

import { expect, test } from 'vitest'
import type { Completion } from '../../../src/access/completion.ts'
import { forNestedRun, withChainDepth } from '../../../src/access/derived-scopes.ts'
import { effectOnce } from '../../../src/access/effect-once.ts'
import type { PlatformServices } from '../../../src/access/internals.ts'
import { asSubject, inRole, inWorkspace, withLookups } from '../../../src/access/openers.ts'
import { AdminScope, WorkspaceScope } from '../../../src/access/scope.ts'
import { randomIds } from '../../../src/core/ids.ts'

/** A database that only hands out its transactions: no statement is sent here. */
const database = { transaction: (_tenant: string, work: (held: object) => unknown) => work({}) }
const services = { database, statements: database } as unknown as PlatformServices
const completion = {} as Completion
const REF = { tenantId: 'ten_x', workspaceId: 'ws_x' } as const
const admin = { subject: 'acct_x', role: 'workspace_admin' } as const
const scope = new WorkspaceScope(admin, REF, services, randomIds, completion)
const adminScope = AdminScope.open(admin, REF, services, randomIds, completion)

test.each([
  ['forNestedRun', forNestedRun(scope)],
  ['withChainDepth', withChainDepth(scope, 1)],
  ['inRole', inRole(scope, 'service')],
  ['asSubject', asSubject(scope, 'workspace_admin')],
  ['inWorkspace', inWorkspace(adminScope, REF, 'service')],
])('%s: another role or an operation inside the request: it cannot end the claim', (_, derived) => {
  expect(derived.completion).toBeUndefined()
})

test('withLookups: the caller in its own operation: it ends the claim', () => {
  expect(withLookups(scope, {}).completion).toBe(completion)
})

test.each([
  ['a workspace', scope],
  ['an admin', adminScope],
])(
  'effectOnce: the scope of a transaction of %s: refused, since it could be rolled back',
  async (_, outer) => {
    const nested = outer.transaction((inside: typeof outer) => effectOnce(inside, async () => 1))
    await expect(nested).rejects.toThrow(TypeError)
  },
)
