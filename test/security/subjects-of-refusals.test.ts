/** Refusals of callers in public roles: each names the kind of caller that it refuses. */

import { beforeAll, expect, test } from 'vitest'
import { deployed, EVALUATES, resultOf } from '../support/fixtures/functions.ts'
import {
  type Caller,
  call,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
  tokenOf,
  userToken,
} from '../support/fixtures/tenants.ts'
import { gatewayHeaders } from '../support/stack/gateway.ts'
import { bucketOf, configure } from '../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let bucket: string
let functionId: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
  await configure(workspace, { anon: { events: 'none' } })
  functionId = await deployed(workspace, EVALUATES, { anon: true, user: true })
})

const tokenIn = (...roles: string[]): Promise<Caller> =>
  tokenOf({ roles, tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId })

const CALLERS: Readonly<Record<string, readonly [subject: string, () => Promise<Caller>]>> = {
  'anon key': ['Anon keys', async () => workspace.anon],
  'gateway, role anon': [
    'Callers of a gateway with the role anon',
    async () => gatewayHeaders(workspace, 'anon'),
  ],
  'token without a role': [
    'Tokens without a role on data, which have the rights of anon keys,',
    () => tokenIn(),
  ],
  user: ['Users', () => userToken(workspace, 'mia')],
}

const refused = () => ({
  'GET documents': ['GET', '/v1/collections/todos/documents'],
  'POST document': ['POST', '/v1/collections/todos/documents', { n: 1 }],
  'GET object': ['GET', `/v1/objects/${bucket}/private/a`],
  'GET objects': ['GET', `/v1/objects/${bucket}?prefix=private/`],
  'subscription to a topic': ['GET', '/v1/events/subscribe?topic=lobby'],
  'subscription to changes': ['GET', '/v1/events/subscribe?topic=collections.todos.created'],
  'invocation of a version': ['POST', `/v1/functions/${functionId}/invoke?version=1`, {}],
})

test.each(Object.entries(CALLERS))(
  'refusal of %s: has this caller as its subject',
  async (_name, [subject, open]) => {
    const as = await open()
    for (const [request, [method = '', path = '', body]] of Object.entries(refused())) {
      const reply = await call(method as string, path as string, { as, ...(body !== undefined && { body }) })
      expect([request, reply.status, reply.body.code, reply.body.detail]).toEqual([
        ...[request, 403, 'forbidden'],
        expect.stringMatching(new RegExp(`^${subject} (may|read|subscribe) `)),
      ])
    }
  },
)

test('subscription to events of the platform: is refused with the caller as its subject', async () => {
  await configure(workspace, { anon: { events: 'workspace' } })
  for (const [subject, open] of Object.values(CALLERS)) {
    const reply = await call('GET', '/v1/events/subscribe?topic=platform.execution.completed', {
      as: await open(),
    })
    expect([reply.status, reply.body.detail]).toEqual([
      403,
      `${subject} cannot subscribe to events of the platform.`,
    ])
  }
})

test.each(['anon key', 'user'])(
  'refusal of code that runs for a %s: has the function as its subject',
  async (name) => {
    const [, open] = CALLERS[name] ?? []
    const run = 'tenon.collections.list("todos")'
    const { code, detail } = await resultOf((await open?.()) ?? {}, functionId, { run })
    expect([code, detail]).toEqual([
      'forbidden',
      expect.stringMatching(`^Functions with the rights of ${name}s may not read documents of todos`),
    ])
  },
)
